//! The configuration file while a crawl runs: read and checked again on request, and when it changes.
//!
//! A thread of its own does it, since a disk can keep one waiting; the engine gets a configuration that is right,
//! or what is wrong with it. The folder is watched, not the file: editors write a new one and rename it, and a
//! watch on the old one would see nothing any more. What the watch says is a hint only: the file is read once
//! things are quiet, and nothing is done if its text is what it was.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::config::{Config, ConfigErrors};
use crate::control::Mono;
use crate::crawl::engine::AskReload;
use crate::fault;
use crate::text::{Clean, of_panic};
use crate::watch::{Reading, Request};

/// A file counts as written when nothing happened to it for so long.
const QUIET: Duration = Duration::from_millis(300);
/// One that never comes to rest is read all the same, after so long.
const PATIENCE: Duration = Duration::from_secs(3);
/// Hints and requests that may wait. A hint that finds no room is one of many; a request is refused.
const INBOX_MAX: usize = 64;

/// Reads and checks the text of a configuration; the flags of the command line are applied to it.
pub type Check = Box<dyn Fn(&str) -> Result<Config, ConfigErrors> + Send>;

/// A configuration file, and how to check it.
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// How it is checked.
    pub check: Check,
}

/// What the thread is told.
enum Message {
    /// Read it and answer this ticket.
    Read(u64),
    /// Something happened in its folder.
    Hint,
    /// The run is over.
    Stop,
}

/// Ends the thread when it is dropped. Nobody waits for it: it may hang in a read of a dead file system.
#[derive(Debug)]
pub struct Reloader {
    inbox: SyncSender<Message>,
}

impl Drop for Reloader {
    fn drop(&mut self) {
        let _ = self.inbox.try_send(Message::Stop);
    }
}

/// Begins to watch `file`; `running` is what was read of it at the start. Gives how the engine asks for a reading.
pub fn spawn(
    file: ConfigFile,
    running: Config,
    requests: mpsc::Sender<Request>,
    clock: Arc<dyn Clock>,
) -> std::io::Result<(Reloader, AskReload)> {
    let (inbox, messages) = sync_channel(INBOX_MAX);
    let hints = inbox.clone();
    std::thread::Builder::new().name("config".to_owned()).spawn(move || {
        let told = requests.clone();
        let name = short_name(&file.path);
        let mut thread = Thread { file, requests, clock, hints, last: None };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let watch = thread.watch_or_say();
            // What happened between the start and the watch is seen now.
            if watch.is_some() {
                thread.look(&running);
            }
            drop(running);
            thread.run(&messages, watch);
        }));
        // What was read last stays in force; nobody is to wait for more.
        if let Err(panic) = ran {
            let why = format!("{name} is not read again: its reader panicked: {}", of_panic(panic.as_ref()));
            let _ = told.blocking_send(Request::Unwatched(Clean::new(why)));
        }
    })?;
    let asked = inbox.clone();
    Ok((Reloader { inbox }, Box::new(move |ticket| asked.try_send(Message::Read(ticket)).is_ok())))
}

struct Thread {
    file: ConfigFile,
    requests: mpsc::Sender<Request>,
    clock: Arc<dyn Clock>,
    hints: SyncSender<Message>,
    /// What was read last: its text, or why there was none.
    last: Option<Result<String, ConfigErrors>>,
}

/// A watch, and the folders it is on.
struct Watch {
    /// Watches until it is dropped.
    _watcher: RecommendedWatcher,
    places: Vec<Place>,
}

/// A folder, and which one it is: another may come to stand under its name.
#[derive(PartialEq, Eq)]
struct Place {
    path: PathBuf,
    identity: (u64, u64),
}

impl Thread {
    /// Until the run is over.
    fn run(&mut self, messages: &Receiver<Message>, mut watch: Option<Watch>) {
        fault::pass("config");
        // When the first and the last hint came that nothing was done about.
        let mut hinted: Option<(Mono, Mono)> = None;
        loop {
            let message = match hinted {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some((first, last)) => {
                    let due = last.after(QUIET).min(first.after(PATIENCE));
                    messages.recv_timeout(due.since(self.clock.now()))
                }
            };
            let goes_on = match message {
                Ok(Message::Hint) => {
                    let now = self.clock.now();
                    hinted = Some((hinted.map_or(now, |(first, _)| first), now));
                    true
                }
                Ok(Message::Read(ticket)) => {
                    hinted = None;
                    let text = self.text();
                    self.tell(Some(ticket), text)
                }
                Err(RecvTimeoutError::Timeout) => {
                    hinted = None;
                    self.follow(&mut watch);
                    self.look_again()
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Watches, or says why that cannot be and what to do instead.
    fn watch_or_say(&self) -> Option<Watch> {
        let name = short_name(&self.file.path);
        let say = |why: String| {
            let words = format!("{name} is not watched ({why}); after a change of it say :reload");
            self.send(Request::Unwatched(Clean::new(words)));
        };
        self.watch().map_err(say).ok()
    }

    /// Watches the folder of the file, and of what it leads to if it is a link.
    fn watch(&self) -> Result<Watch, String> {
        let path = &self.file.path;
        // A pipe leads nowhere.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err("it is no plain file".to_owned());
        }
        let (target, places) = places(path).map_err(|error| error.to_string())?;
        if let Some(system) = remote_file_system(&target) {
            return Err(format!("on {system} changes made elsewhere are not noticed"));
        }
        let names =
            [path.as_path(), &target].iter().filter_map(|path| path.file_name()).map(ToOwned::to_owned).collect();
        let about = About { names, folders: places.iter().map(|place| place.path.clone()).collect() };
        let hints = self.hints.clone();
        let heard = move |event: notify::Result<notify::Event>| {
            let is_hint = match &event {
                // The watch lost count, or some of it: whatever happened, the file says.
                Err(_) => true,
                Ok(event) => event.need_rescan() || is_written(event.kind) && about.covers(event),
            };
            if is_hint {
                let _ = hints.try_send(Message::Hint);
            }
        };
        let mut watcher = notify::recommended_watcher(heard).map_err(|error| error.to_string())?;
        for place in &places {
            watcher.watch(&place.path, RecursiveMode::NonRecursive).map_err(|error| error.to_string())?;
        }
        Ok(Watch { _watcher: watcher, places })
    }

    /// A link may lead elsewhere now, and another folder stand in the place of the one that was watched.
    fn follow(&self, watch: &mut Option<Watch>) {
        let Some(old) = watch else { return };
        let moved = match places(&self.file.path) {
            Ok((_, now)) => now != old.places,
            // The file is away, perhaps for the moment; its folder is there.
            Err(_) => !folder_of(&self.file.path).is_dir(),
        };
        if moved {
            *watch = self.watch_or_say();
        }
    }

    /// The file's text as it is now.
    fn text(&self) -> Result<String, ConfigErrors> {
        let path = &self.file.path;
        // Opening a pipe could wait for ever.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(ConfigErrors::of_file(&path.to_string_lossy(), "is no plain file any more"));
        }
        Config::read(path)
    }

    /// Looks at the file for the first time: it may be another one than the crawl began with.
    fn look(&mut self, running: &Config) {
        let text = self.text();
        let same = match &text {
            Ok(text) => (self.file.check)(text).is_ok_and(|read| running.differences(&read).is_empty()),
            Err(_) => false,
        };
        if same {
            self.last = Some(text);
        } else {
            self.tell(None, text);
        }
    }

    /// Something happened: tells of it, if the file is another one. False when nobody listens any more.
    fn look_again(&mut self) -> bool {
        let text = self.text();
        if self.last.as_ref() == Some(&text) {
            return true;
        }
        self.tell(None, text)
    }

    /// Checks what was read and hands it on.
    fn tell(&mut self, ticket: Option<u64>, text: Result<String, ConfigErrors>) -> bool {
        let loaded = match &text {
            Err(errors) => Err(errors.clone()),
            // Who writes in place empties the file first. To take that for a wish would set every host to the defaults.
            Ok(text) if ticket.is_none() && text.trim().is_empty() => {
                let message = "is empty; :reload takes that for the defaults";
                Err(ConfigErrors::of_file(&self.file.path.to_string_lossy(), message))
            }
            Ok(text) => (self.file.check)(text),
        };
        self.last = Some(text);
        if let Err(errors) = &loaded {
            tracing::warn!(%errors, "configuration file");
        }
        let file = Clean::new(short_name(&self.file.path));
        self.send(Request::Reread(Reading { ticket, file, loaded: Arc::new(loaded) }))
    }

    fn send(&self, request: Request) -> bool {
        self.requests.blocking_send(request).is_ok()
    }
}

/// Whether something was written, made, renamed or removed: reading a file is an event, too.
fn is_written(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}

/// Which events are about the file.
struct About {
    /// Of the file, and of what it leads to.
    names: Vec<OsString>,
    folders: Vec<PathBuf>,
}

impl About {
    /// Whether an event names the file, a folder it is in, or a link by which whole folders of configuration are
    /// swapped.
    fn covers(&self, event: &notify::Event) -> bool {
        event.paths.iter().any(|path| {
            let is_named = |name: &OsStr| name == "..data" || self.names.iter().any(|one| one == name);
            self.folders.contains(path) || path.file_name().is_some_and(is_named)
        })
    }
}

/// What `path` leads to, and the folders in which a change of it would be seen.
fn places(path: &Path) -> std::io::Result<(PathBuf, Vec<Place>)> {
    let target = path.canonicalize()?;
    let mut places = Vec::with_capacity(2);
    for path in [folder_of(path), folder_of(&target)] {
        let found = path.metadata()?;
        let identity = (found.dev(), found.ino());
        if places.iter().all(|place: &Place| place.identity != identity) {
            places.push(Place { path, identity });
        }
    }
    Ok((target, places))
}

/// The folder that a path names something in.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn short_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The kind of file system, if it is one whose changes the kernel here does not hear of.
#[cfg(target_os = "linux")]
fn remote_file_system(path: &Path) -> Option<&'static str> {
    // From linux/magic.h and the file systems' own sources.
    let known = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "SMB"),
        (0xfe53_4d42, "SMB"),
        (0x6573_5546, "FUSE"),
        (0x0102_1997, "9P"),
        (0x5346_414f, "AFS"),
        (0x00c3_6400, "Ceph"),
    ];
    let found = rustix::fs::statfs(path).ok()?.f_type as u64 & 0xffff_ffff;
    known.into_iter().find(|(magic, _)| *magic == found).map(|(_, name)| name)
}

#[cfg(not(target_os = "linux"))]
fn remote_file_system(_path: &Path) -> Option<&'static str> {
    None
}
