use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, mpsc};

use hyper::{HeaderMap, Version};

use super::*;
use crate::archive::spool::Spool;
use crate::archive::{Keep, ResponseHead, head};
use crate::clock::{Anchor, SystemClock, Wall};
use crate::control::RequestKind;
use crate::journal::disk::{DiskFile, Identity, SystemDisk};
use crate::store::load::{Beyond, LoadHooks, Loaded, load};
use crate::store::record::UrlRecord;
use crate::store::{Fate, Store, StoreOptions};

/// The bound of every wait: reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A disk that lets so many captures through to a file that is open, and counts syncs of files.
#[derive(Default)]
struct Gate {
    permits: Mutex<u64>,
    given: Condvar,
    syncs: AtomicU64,
}

impl Gate {
    fn give(&self, permits: u64) {
        *self.permits.lock().expect("whole") += permits;
        self.given.notify_all();
    }
}

struct GatedDisk(Arc<Gate>);

impl Disk for GatedDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CountedFile(SystemDisk.open(path)?, Arc::clone(&self.0))))
    }

    /// Asked once a capture.
    fn identity(&mut self, path: &Path) -> io::Result<Option<Identity>> {
        let permits = self.0.permits.lock().expect("whole");
        let (mut permits, timeout) =
            self.0.given.wait_timeout_while(permits, PATIENCE, |permits| *permits == 0).expect("whole");
        assert!(!timeout.timed_out(), "nobody gave a permit");
        *permits -= 1;
        SystemDisk.identity(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }

    fn sync_dir(&mut self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct CountedFile(Box<dyn DiskFile>, Arc<Gate>);

impl DiskFile for CountedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }

    fn size(&mut self) -> io::Result<u64> {
        self.0.size()
    }

    fn identity(&mut self) -> io::Result<Identity> {
        self.0.identity()
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.0.cut(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.1.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// An archive behind a gate, with one capture on the disk; and what handle and writer share.
fn gated(dir: &Path) -> (Arc<Gate>, Archive, Arc<Shared>) {
    let gate = Arc::new(Gate::default());
    let room = Room::new(dir, Keep { warc: true, bodies: false });
    // Nothing is synced but what a barrier waits for.
    let options = ArchiveOptions { sync_every: Duration::from_secs(3_600), ..ArchiveOptions::default() };
    let disk = Box::new(GatedDisk(Arc::clone(&gate)));
    let archive = Archive::open_with(dir, Arc::clone(&room), SystemClock::shared(), disk, options).expect("writable");
    archive.sender().put(page(0));
    archive.barrier().sync().expect("the first needs no permit");
    let shared = Arc::clone(&archive.shared);
    (gate, archive, shared)
}

fn page(number: u64) -> Box<Capture> {
    let url: url::Url = format!("http://a.test/{number}").parse().expect("URL");
    Box::new(Capture {
        kind: RequestKind::Page,
        sent: Wall(0),
        took: Duration::ZERO,
        peer: None,
        request: head::request(&url, &HeaderMap::new()),
        head: ResponseHead {
            version: Version::HTTP_11,
            status: 200,
            reason: head::usual_reason(200).into(),
            headers: HeaderMap::new(),
        },
        body: Spool::of(format!("page {number}").into_bytes()),
        truncated: None,
        is_sound: true,
        url,
    })
}

/// Waits until a barrier waits for so many captures.
#[track_caller]
fn wanted(shared: &Shared, count: u64) {
    let (_nobody, nothing) = mpsc::channel::<()>();
    for _ in 0..PATIENCE.as_millis() / 5 {
        if shared.handover.lock().queue.wanted == count {
            return;
        }
        let _ = nothing.recv_timeout(Duration::from_millis(5));
    }
    panic!("{} captures are waited for, not {count}", shared.handover.lock().queue.wanted);
}

fn done(run: &Path) -> u64 {
    let hooks = LoadHooks { lane: &mut |_, _| 0, beyond: &mut |_| Beyond::default() };
    load(run, hooks).expect("whole").unwrap_or_default().counts.done
}

#[tokio::test]
async fn a_url_is_done_as_soon_as_its_capture_is_on_the_medium_however_many_wait_behind_it() {
    const PAGES: u64 = 5;
    let dir = tempfile::tempdir().expect("a folder");
    let (gate, archive, shared) = gated(dir.path());
    let disk = Box::new(SystemDisk);
    let barrier = Box::new(archive.barrier());
    let mut store = Store::start(dir.path(), &mut Loaded::default(), vec![barrier], disk, StoreOptions::default())
        .expect("threads");
    let mut health = store.health_changed();
    store.add_host("a.test");
    for number in 1..=PAGES {
        archive.sender().put(page(number));
        let url = format!("http://a.test/{number}");
        let id = store.add_url(&UrlRecord {
            host: Some(0),
            print: number,
            depth: 0,
            run: 0,
            kind: RequestKind::Page,
            url: &url,
        });
        store.fate(id, Fate::Done, "200");
        store.commit(Anchor::default());
    }
    for number in 1..=PAGES {
        // One more than the pages: the one that was there before.
        wanted(&shared, number + 1);
        gate.give(1);
        let written = health.wait_for(|health| health.commits >= number);
        tokio::time::timeout(PATIENCE, written).await.expect("in time").expect("it runs");
        assert_eq!((done(dir.path()), archive.backlog() as u64), (number, PAGES - number));
    }
    store.close_blocking(PATIENCE).expect("written");
    archive.close_blocking(PATIENCE).expect("written");
}

#[test]
fn what_is_waited_for_at_once_is_synced_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let (gate, archive, shared) = gated(dir.path());
    let before = gate.syncs.load(Ordering::SeqCst);
    for number in 1..=50 {
        archive.sender().put(page(number));
    }
    let mut barrier = archive.barrier();
    let waiting = std::thread::spawn(move || barrier.sync_first(41));
    wanted(&shared, 41);
    gate.give(40);
    assert_eq!(waiting.join().expect("no panic").expect("synced"), 41);
    assert_eq!(gate.syncs.load(Ordering::SeqCst) - before, 1, "no record is synced by itself");
    assert_eq!(archive.barrier().sync_first(7).expect("synced"), 41, "what is there needs no sync");
    assert_eq!(gate.syncs.load(Ordering::SeqCst) - before, 1);
    gate.give(10);
    assert_eq!(archive.barrier().sync_first(u64::MAX).expect("synced"), 51, "what will never come is not waited for");
    archive.close_blocking(PATIENCE).expect("written");
}
