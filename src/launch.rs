//! The commands that crawl or read a run: from what was typed to a session, and its exit code.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::cli::{CheckArgs, DemoArgs, MemoryAct, ReviewArgs, RunArgs, SimulateArgs};
use crate::clock::SystemClock;
use crate::commands::{self, DONE, FAILED, USAGE};
use crate::config::{Config, Glyphs, Outside, Overrides};
use crate::crawl::input::Source;
use crate::demo;
use crate::memory::{Memory, command as memory_command};
use crate::reload::ConfigFile;
use crate::review::{self, ReviewMode};
use crate::session::{self, SessionOptions};
use crate::simulate::{self, Paper};
use crate::store::load::STATE_FOLDER;
use crate::text::{Clean, of_panic};
use crate::tui;
use crate::tui::keymap::{Keymap, KeymapError};
use crate::tui::review::ReviewOptions;
use crate::tui::theme::{Depth, Surroundings, Theme};

/// Names of temporary folders that are tried.
const FOLDERS_TRIED: u32 = 16;

/// What the demo remembers, in its run folder.
const DEMO_MEMORY: &str = "memory";
/// Threads of a session beside the runtime's: it starts about so many.
const THREADS: usize = 18;
/// The demo's servers get so long to close their connections.
const SERVERS_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// What a configuration is checked against beside itself: the environment, the actions that keys can be bound to.
fn outside() -> Outside<'static> {
    Outside { keys: &check_key, conflicts: &check_keys, theme: &check_theme, ..Outside::process() }
}

/// One entry of `[keys]`. Whether two of them want the same key shows only when all are known.
fn check_key(action: &str, key: &str) -> Result<(), String> {
    match Keymap::with_overrides(&BTreeMap::from([(action.to_owned(), key.to_owned())])) {
        Ok(_) => Ok(()),
        Err(errors) => match errors.into_iter().find(|error| !matches!(error, KeymapError::Conflict { .. })) {
            Some(error) => Err(error.to_string()),
            None => Ok(()),
        },
    }
}

/// All of `[keys]` together: which lines want a key that another action has.
fn check_keys(keys: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let Err(errors) = Keymap::with_overrides(keys) else { return Vec::new() };
    let conflict = |error: KeymapError| match &error {
        // The line to mend is one of the file; of two lines it is the second.
        KeymapError::Conflict { first, second, .. } => {
            let action = if keys.contains_key(second) { second } else { first };
            Some((action.clone(), error.to_string()))
        }
        _ => None,
    };
    errors.into_iter().filter_map(conflict).collect()
}

/// A theme that is a file of one's own, for few colours and for many.
fn check_theme(file: &str) -> Result<(), String> {
    for depth in [Depth::True, Depth::Sixteen] {
        let around = Surroundings { depth, ..Surroundings::default() };
        Theme::load(file, Glyphs::Auto, around).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The configuration of `-c FILE` or of `folder`.
fn configuration(named: Option<&Path>, folder: &Path) -> Result<Config, String> {
    let config = commands::find_config(named, folder, outside()).map_err(|errors| errors.to_string())?;
    if let Some(root) = config.network.extra_roots.iter().find(|root| !root.is_file()) {
        let root = Clean::new(root.to_string_lossy());
        return Err(format!("extra_roots in [network]: {root} is no file that can be read; name a PEM file"));
    }
    Ok(config)
}

/// `crawldeck check`: the exit code.
pub fn check(args: CheckArgs, folder: &Path, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    // Certificates are looked for when a crawl begins, so they are looked for here, too.
    let mut answer = Vec::new();
    let code = commands::check(args.file.as_deref(), folder, outside(), &mut answer, err);
    if code == DONE
        && let Err(errors) = configuration(args.file.as_deref(), folder)
    {
        return complain(errors, USAGE);
    }
    let _ = out.write_all(&answer);
    code
}

/// `crawldeck simulate`: the exit code.
pub fn simulate(args: &SimulateArgs, folder: &Path, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match configuration(args.config.as_deref(), folder) {
        Ok(config) => simulate::simulate(args, &config.settings, paper(config.ui.glyphs), out, err),
        Err(errors) => complain(errors, USAGE),
    }
}

/// `crawldeck memory`: the exit code.
pub fn memory(act: &MemoryAct, folder: &Path, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let place = match act {
        MemoryAct::List(args) => &args.place,
        MemoryAct::Forget(args) => &args.place,
    };
    let named = match (&place.file, configuration(place.config.as_deref(), folder)) {
        (Some(file), _) => Some(file.clone()),
        (None, Ok(config)) => config.memory,
        (None, Err(errors)) => return complain(errors, USAGE),
    };
    match named.map(Memory::at).or_else(Memory::of_user) {
        Some(memory) => memory_command::run(act, &memory, out, err),
        None => complain("there is no data directory: name the file with --file", USAGE),
    }
}

/// What results are written on.
fn paper(glyphs: Glyphs) -> Paper {
    // A pipe has no width; 80 columns are what everything is made for.
    let width = if io::stdout().is_terminal() { tui::terminal::terminal_size().0 } else { 80 };
    let unicode = match glyphs {
        Glyphs::Unicode => true,
        Glyphs::Ascii => false,
        Glyphs::Auto => Surroundings::read().utf8,
    };
    let bar = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    Paper { width, unicode, bar }
}

/// `crawldeck run`: the exit code.
pub fn run(args: RunArgs, folder: &Path) -> u8 {
    let mut config = match configuration(args.config.as_deref(), folder) {
        Ok(config) => config,
        Err(errors) => return complain(errors, USAGE),
    };
    let overrides = Overrides { rate: args.rate, capacity: args.capacity, concurrency: args.concurrency };
    if let Err(errors) = config.apply(overrides) {
        return complain(errors, USAGE);
    }
    let mut sources: Vec<Source> = args.urls.into_iter().map(Source::Url).collect();
    let files = args.url_files.into_iter().chain(config.crawl.urls.clone());
    sources.extend(files.map(|file| if file.as_os_str() == "-" { Source::Stdin } else { Source::File(file) }));
    if sources.is_empty() && !args.dir.join(STATE_FOLDER).is_dir() {
        return complain("nothing to crawl: name URLs, -u FILE, or `urls` in [crawl]", USAGE);
    }
    let options = SessionOptions {
        config,
        dir: args.dir,
        sources,
        headless: args.headless,
        ends_after: None,
        legend: Vec::new(),
        config_file: commands::config_file(args.config.as_deref(), folder).map(|path| config_file(path, overrides)),
    };
    in_runtime(session::run(options))
}

/// The file at `path`, checked as at the start whenever it is read again.
fn config_file(path: PathBuf, overrides: Overrides) -> ConfigFile {
    let name = path.to_string_lossy().into_owned();
    let check = move |text: &str| {
        let mut config = Config::parse_with(text, &name, outside())?;
        config.apply(overrides)?;
        Ok(config)
    };
    ConfigFile { path, check: Box::new(check) }
}

/// `crawldeck demo`: the exit code.
pub fn demo(args: DemoArgs) -> u8 {
    let dir = match args.dir.map_or_else(fresh_folder, Ok) {
        Ok(dir) => dir,
        Err(error) => return complain(format!("no temporary folder for the demo: {error}; name one with -d"), FAILED),
    };
    in_runtime(async {
        let servers = demo::start(SystemClock::shared(), fastrand::u64(..)).await;
        let servers = servers.map_err(|error| session::SessionError::Failed(error.to_string()))?;
        let mut config = Config::default();
        servers.configure(&mut config);
        // Nothing of the demo gets into what real crawls remember.
        config.memory = Some(dir.join(DEMO_MEMORY));
        let legend = servers.hosts().iter().map(|host| Clean::new(format!("{:<18} {}", host.name, host.about)));
        let legend: Vec<Clean> = legend.collect();
        if args.headless {
            for line in &legend {
                say(line);
            }
        }
        let sources = servers.urls().into_iter().map(Source::Url).collect();
        let options = SessionOptions {
            config,
            dir,
            sources,
            headless: args.headless,
            ends_after: args.lasting,
            legend,
            config_file: None,
        };
        let end = session::run(options).await;
        // A connection that will not close is no reason to stay.
        let _ = tokio::time::timeout(SERVERS_WITHIN, servers.stop()).await;
        end
    })
}

/// A run folder for a demo, made just now: a name with the process's number may be taken by a demo of long ago.
fn fresh_folder() -> io::Result<PathBuf> {
    for _ in 0..FOLDERS_TRIED {
        let dir = std::env::temp_dir().join(format!("crawldeck-demo-{:08x}", fastrand::u32(..)));
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| dir),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// `crawldeck review`: the exit code.
pub fn review(args: ReviewArgs, out: &mut dyn Write) -> u8 {
    let plain = args.summary || args.json || args.suggest || args.csv.is_some() || args.svg.is_some();
    if !plain && tui::terminal_available() {
        return review_screen(&args, out);
    }
    if args.other.is_some() {
        return complain("two runs are compared on the screen; without a terminal, compare their --json", USAGE);
    }
    let mode = match (args.csv, args.svg, args.json) {
        (Some(file), ..) => ReviewMode::Csv(file),
        (None, Some(file), _) => {
            let picture = review::check_folder(&args.dir)
                .map_err(|error| error.to_string())
                .and_then(|_| tui::review::timeline_svg(&args.dir).map_err(|error| error.to_string()));
            match picture {
                Ok(picture) => ReviewMode::Picture(file, picture),
                Err(error) => return complain(error, USAGE),
            }
        }
        (None, None, _) if args.suggest => ReviewMode::Suggest,
        (None, None, true) => ReviewMode::Json,
        (None, None, false) => ReviewMode::Summary,
    };
    match review::run_review(&args.dir, mode, out).and_then(|()| out.flush().map_err(Into::into)) {
        Ok(()) => DONE,
        // Whoever read it has seen enough.
        Err(review::ReviewError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => DONE,
        Err(error @ review::ReviewError::Output(_)) => complain(error, FAILED),
        Err(error) => complain(error, USAGE),
    }
}

/// The review on the terminal, and what the run came to when it is left: the exit code.
fn review_screen(args: &ReviewArgs, out: &mut dyn Write) -> u8 {
    for dir in std::iter::once(&args.dir).chain(&args.other) {
        if let Err(error) = review::check_folder(dir) {
            return complain(error, USAGE);
        }
    }
    // A configuration that is broken, or none, is no reason not to look at a run.
    let config = configuration(None, Path::new(".")).unwrap_or_else(|_| Config::default());
    let options = ReviewOptions { ui: config.ui, keys: config.keys, dir: args.dir.clone(), other: args.other.clone() };
    match tui::review::run(options, SystemClock::shared()) {
        Ok(left) => {
            // The terminal was there a moment ago; if it is gone, so is who would read this.
            let _ = out.write_all(left.words().as_bytes()).and_then(|()| out.flush());
            DONE
        }
        Err(error) => complain(error, FAILED),
    }
}

/// Starts so many threads at once, and ends them: whether a session could have them.
fn start_threads(wanted: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        // Closed until all are there, or one is not.
        let _closed = gate.lock();
        for _ in 0..wanted {
            std::thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()))?;
        }
        Ok(())
    })
}

/// Runs a session on the runtime that the crawl needs.
fn in_runtime(session: impl Future<Output = Result<u8, session::SessionError>>) -> u8 {
    // Looked at first: the runtime, and libraries, panic or hang where a thread of theirs cannot be had.
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    if let Err(error) = start_threads(workers + THREADS) {
        let many = workers + THREADS;
        return complain(format!("{many} threads cannot be started: {error}; raise the limit (ulimit -u)"), FAILED);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(format!("the runtime cannot be started: {error}"), FAILED),
    };
    // What a panic interrupts lets go of what it has as it goes down: terminal, journal, lock.
    let end = catch_unwind(AssertUnwindSafe(|| runtime.block_on(session))).unwrap_or_else(|panic| {
        Err(session::SessionError::Failed(format!("it panicked: {}", of_panic(panic.as_ref()))))
    });
    // A look-up that hangs must not hold the exit up.
    runtime.shutdown_background();
    end.unwrap_or_else(|error| complain(&error, error.exit()))
}

fn say(text: impl std::fmt::Display) {
    // Nobody is left to be told about a stream that failed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn complain(text: impl std::fmt::Display, code: u8) -> u8 {
    say(format!("crawldeck: {text}"));
    code
}
