//! The commands about what a run holds: `status` and `export` look without touching anything, also at a run that is
//! going on; `retry` puts failed URLs back.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::cli::{ExportArgs, RetryArgs};
use crate::clock::{Anchor, Clock as _, SystemClock, Wall};
use crate::commands::{DONE, FAILED, USAGE};
use crate::config::Config;
use crate::control::{HoldReason, Mono, RequestKind, SavedHost, Value, What, Who};
use crate::crawl::engine::persist::{NOTES_STATE, Note, RUN_STATE, RunState};
use crate::crawl::resume::resume;
use crate::crawl::traps::reopened;
use crate::journal::disk::SystemDisk;
use crate::journal::place::{HELD_TO_THE_END, RETRIED_FAILED, RETRIED_HELD};
use crate::journal::{Event, Journal, JournalOptions, RunFolder, run_folder};
use crate::store::list::each_url;
use crate::store::load::{Loaded, STATE_FOLDER, Told};
use crate::store::record::UrlRecord;
use crate::store::states::StateKind;
use crate::store::{Fate, Store, StoreError, StoreOptions, UrlId};
use crate::text::Clean;

/// Hosts of each kind that are named.
const NAMED_MAX: usize = 20;
/// Notes that are shown, the newest.
const NOTES_SHOWN: usize = 10;
/// How long a disk may take for what `retry` writes.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);

/// Why a command cannot be done.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error("{} holds no state of a crawl; name the folder of a run", .0.display())]
    NoState(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the result cannot be written: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Folder(#[from] run_folder::RunFolderError),
    #[error(transparent)]
    Journal(#[from] crate::journal::JournalError),
}

/// `crawldeck status`: the exit code.
pub fn status(dir: &Path, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let shown = held(dir).and_then(|loaded| Ok(tell(dir, &loaded, out)?));
    code_of(shown, err)
}

/// `crawldeck export`: the exit code.
pub fn export(args: &ExportArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let wanted = match (args.done, args.failed, args.skipped) {
        (true, ..) => Some(Fate::Done),
        (_, true, _) => Some(Fate::Failed),
        (.., true) => Some(Fate::Skipped),
        _ => None,
    };
    let mut out = BufWriter::new(out);
    let listed = match args.dir.join(STATE_FOLDER).is_dir() {
        true => each_url(&args.dir, |listed| {
            if listed.fate != wanted {
                return Ok(());
            }
            // A comment above its URL: the list can be given to `-u` as it is.
            match (listed.why, listed.failures) {
                ("", 0) => {}
                ("", failures) => writeln!(out, "# {failures} attempts failed so far")?,
                (why, _) => writeln!(out, "# {}", Clean::new(why))?,
            }
            Ok(writeln!(out, "{}", Clean::new(listed.url))?)
        }),
        false => Err(StateError::NoState(args.dir.clone())),
    };
    code_of(listed.and_then(|()| Ok(out.flush()?)), err)
}

/// `crawldeck retry`: the exit code.
pub fn retry(args: &RetryArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let put_back = put_back(args).and_then(|count| Ok(writeln!(out, "{count} URLs put back")?));
    code_of(put_back, err)
}

fn code_of(done: Result<(), StateError>, err: &mut dyn Write) -> u8 {
    match done {
        Ok(()) => DONE,
        // Whoever read it has seen enough.
        Err(StateError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
        Err(error) => {
            // Nobody is left to be told about a stream that failed.
            let _ = writeln!(err, "crawldeck: {error}");
            match error {
                StateError::NoState(_) | StateError::Folder(_) => USAGE,
                StateError::Store(_) | StateError::Output(_) | StateError::Journal(_) => FAILED,
            }
        }
    }
}

fn held(dir: &Path) -> Result<Loaded, StateError> {
    let loaded = match dir.join(STATE_FOLDER).is_dir() {
        true => resume(dir, &Config::default())?,
        false => None,
    };
    loaded.ok_or_else(|| StateError::NoState(dir.to_path_buf()))
}

/// Moments of the run by the wall clock.
struct Moments(Anchor);

impl Moments {
    fn text(&self, at: Mono) -> String {
        let Anchor { mono, wall, .. } = self.0;
        let wall = match at >= mono {
            true => wall.after(at.since(mono)),
            false => Wall(wall.0.saturating_sub(i64::try_from(mono.since(at).as_micros()).unwrap_or(i64::MAX))),
        };
        let text = wall.rfc3339();
        format!("{}Z", text.split('.').next().unwrap_or_default())
    }
}

/// What the folder holds, in words.
fn tell(dir: &Path, loaded: &Loaded, out: &mut dyn Write) -> io::Result<()> {
    let anchor = loaded.mark.as_ref().map_or(Anchor::default(), |mark| mark.anchor);
    let moments = Moments(anchor);
    let run: RunState = state(loaded, RUN_STATE);
    writeln!(out, "run folder  {}", Clean::new(dir.to_string_lossy()))?;
    match run_folder::holder_of(dir) {
        Some(holder) => writeln!(out, "running     {holder}")?,
        None => writeln!(out, "running     no; `crawldeck run -d` goes on with it")?,
    }
    if loaded.mark.is_some() {
        writeln!(out, "as of       {}", moments.text(anchor.mono))?;
    }
    let (counts, pending, tried) = (loaded.counts, loaded.pending(), loaded.tried.len());
    let known = counts.done + counts.failed + counts.skipped + pending;
    write!(out, "URLs        {known} known: {} done, {} failed, ", counts.done, counts.failed)?;
    writeln!(out, "{} skipped, {pending} pending, {tried} of them tried", counts.skipped)?;
    writeln!(out, "inputs      {}", if run.inputs_read { "read to their end" } else { "not read to their end" })?;
    writeln!(out, "requests    {}", loaded.rows)?;
    for lost in &loaded.lost {
        writeln!(out, "damage      {lost}")?;
    }
    if loaded.torn > 0 {
        writeln!(out, "unfinished  {} bytes at the end count for nothing", loaded.torn)?;
    }
    let saved = |name: &str| -> Option<SavedHost> {
        serde_json::from_slice(loaded.state(StateKind::Host, Clean::new(name).as_str())?).ok()
    };
    let hosts: Vec<(&str, SavedHost)> = loaded.hosts.iter().filter_map(|name| Some((&**name, saved(name)?))).collect();
    writeln!(out, "hosts       {} known, {} asked", loaded.hosts.len(), hosts.len())?;
    if run.halted {
        writeln!(out, "halted      by the operator")?;
    }
    for pattern in &run.excluded {
        writeln!(out, "excluded    {}", Clean::new(pattern))?;
    }
    for pattern in &run.allowed {
        writeln!(out, "allowed     {}", Clean::new(pattern))?;
    }
    if !loaded.held.is_empty() {
        writeln!(out, "traps       {} of the pending URLs are held back", loaded.held.len())?;
    }
    tell_hosts(&moments, &hosts, out)?;
    let notes: Vec<Note> = state(loaded, NOTES_STATE);
    for note in notes.iter().rev().take(NOTES_SHOWN).rev() {
        writeln!(out, "note        {}  {}", note.time.rfc3339(), note.text)?;
    }
    out.flush()
}

/// What is not as usual with hosts.
fn tell_hosts(moments: &Moments, hosts: &[(&str, SavedHost)], out: &mut dyn Write) -> io::Result<()> {
    let now = moments.0.mono;
    let until = |until: Option<Mono>| match until {
        Some(at) => format!("until {}", moments.text(at)),
        None => String::from("until changed"),
    };
    let held = hosts.iter().filter_map(|(name, host)| {
        let hold = host.hold().filter(|hold| hold.until > now)?;
        Some(format!("{name}  until {}, {}", moments.text(hold.until), reason_of(hold.reason)))
    });
    name_some(out, "held", held.collect())?;
    let paused = hosts.iter().filter_map(|(name, host)| {
        let pause = host.operator().pause?;
        Some(format!("{name}  {}", until(pause.until)))
    });
    name_some(out, "paused", paused.collect())?;
    let overridden = hosts.iter().filter_map(|(name, host)| {
        let one = host.operator().overriding?;
        let number = |number: Option<f64>| number.map_or(String::from("auto"), |number| number.to_string());
        Some(format!("{name}  rate {}, capacity {}, {}", number(one.rate), number(one.capacity), until(one.until)))
    });
    name_some(out, "overridden", overridden.collect())?;
    let slowed = hosts.iter().filter_map(|(name, host)| {
        let (learned, original) = host.rates(now);
        (learned < original).then(|| format!("{name}  rate {learned:.3} of {original:.3}/s"))
    });
    name_some(out, "slowed", slowed.collect())
}

fn state<T: Default + serde::de::DeserializeOwned>(loaded: &Loaded, key: &str) -> T {
    let value = loaded.state(StateKind::Crawl, key);
    value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
}

fn reason_of(reason: HoldReason) -> String {
    match reason {
        HoldReason::RetryAfter { asked, .. } => format!("the server asked for {} s", asked.as_secs()),
        HoldReason::Throttled => String::from("throttled"),
        HoldReason::Refused => String::from("refused"),
        HoldReason::Network(outcome) => format!("connection trouble: {}", outcome.as_str()),
        HoldReason::RobotsUnreachable => String::from("robots.txt unreachable"),
    }
}

fn name_some(out: &mut dyn Write, word: &str, lines: Vec<String>) -> io::Result<()> {
    for line in lines.iter().take(NAMED_MAX) {
        writeln!(out, "{word:<10}  {}", Clean::new(line))?;
    }
    match lines.len().saturating_sub(NAMED_MAX) {
        0 => Ok(()),
        more => writeln!(out, "{word:<10}  and {more} more"),
    }
}

/// Makes every failed URL pending again, with attempts counted anew; how many. The journal says so.
fn put_back(args: &RetryArgs) -> Result<usize, StateError> {
    let dir = &*args.dir;
    // What counts among the skipped is told from other reasons by its own.
    let is_asked = |fate: Fate, why: &str| match fate {
        Fate::Failed => args.failed,
        Fate::Skipped => args.held && why == HELD_TO_THE_END,
        Fate::Done => false,
    };
    if !dir.join(STATE_FOLDER).is_dir() {
        return Err(StateError::NoState(dir.to_path_buf()));
    }
    let _folder = RunFolder::open(dir)?;
    let mut loaded = held(dir)?;
    let mut back: Vec<(UrlId, Fate)> = Vec::new();
    each_url::<StoreError>(dir, |listed| {
        let fate = listed.fate.filter(|fate| is_asked(*fate, listed.why));
        back.extend(fate.map(|fate| (listed.id, fate)));
        Ok(())
    })?;
    // What the journal tells beyond the last transaction counts, too.
    let late = std::mem::take(&mut loaded.late);
    back.extend(late.iter().filter(|(_, fate, why)| is_asked(*fate, why)).map(|(id, fate, _)| (*id, *fate)));
    if back.is_empty() {
        return Ok(0);
    }
    let clock = Arc::new(SystemClock::new());
    if let Some(mark) = &loaded.mark {
        clock.go_on_from(mark.anchor.resumed_at(&clock.anchor()));
    }
    let options = JournalOptions { rows: loaded.rows, ..JournalOptions::default() };
    let mut journal = Journal::open_with(dir, clock.clone(), Box::new(SystemDisk), options)?;
    let count = |wanted: Fate| back.iter().filter(|(_, fate)| *fate == wanted).count() as u64;
    let (failed, held, counts) = (count(Fate::Failed), count(Fate::Skipped), loaded.counts);
    let why = match (failed, held) {
        (_, 0) => RETRIED_FAILED.to_owned(),
        (0, _) => RETRIED_HELD.to_owned(),
        _ => format!("{RETRIED_FAILED}, {RETRIED_HELD}"),
    };
    journal.event(Event {
        time: clock.wall(),
        mono: clock.now(),
        who: Who::Operator,
        host: None,
        what: What::Retry,
        before: Value::Number((failed + held) as f64),
        after: Value::Counts {
            urls_done: counts.done,
            urls_failed: counts.failed.saturating_sub(failed),
            urls_pending: loaded.pending() + failed + held,
            urls_skipped: counts.skipped.saturating_sub(held),
        },
        why: Clean::new(why),
        url: None,
    });
    journal.flush();
    let barrier = Box::new(journal.barrier());
    let foretold = std::mem::take(&mut loaded.foretold);
    let reopened: Vec<_> = loaded.signs.iter().filter(|_| args.held).filter_map(|sign| reopened(*sign)).collect();
    let mut store = Store::start(dir, &mut loaded, vec![barrier], Box::new(SystemDisk), StoreOptions::default())?;
    for (print, Told { url, fate, why }) in &foretold {
        let id =
            store.add_url(&UrlRecord { host: None, print: *print, depth: 0, run: 0, kind: RequestKind::Page, url });
        store.fate(id, *fate, why);
    }
    for (id, fate, why) in &late {
        store.fate(*id, *fate, why);
    }
    for (id, _) in &back {
        store.back(*id);
    }
    reopened.into_iter().for_each(|sign| store.sign(sign));
    store.commit(clock.anchor());
    store.close_blocking(WRITTEN_WITHIN)?;
    journal.close_blocking(WRITTEN_WITHIN)?;
    Ok(back.len())
}
