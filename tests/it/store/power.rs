//! Losses of power: whatever they leave of the store, it opens, and all that was reported to be there is there.

use crate::support::power::{Image, Medium, Recorder};

use super::*;

/// Runs steps of the script on what is recorded; each is waited for, unless the process dies before.
fn steps(run: &Path, recorder: &Recorder, steps: std::ops::Range<u32>) {
    let mut loaded = read(run).expect("whole");
    let mut store = Store::start(run, &mut loaded, Vec::new(), recorder.disk(), eager()).expect("threads");
    let mut health = store.health_changed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for (commits, number) in (1..).zip(steps) {
        step(&mut store, number);
        let news = runtime.block_on(async {
            let news = health.wait_for(|health| health.commits >= commits || health.blocked.is_some());
            tokio::time::timeout(PATIENCE, news).await.expect("news").expect("it runs").clone()
        });
        if news.blocked.is_some() {
            // Dead: nothing more is done. What it still holds in memory is gone with it.
            let _ = store.close_blocking(Duration::ZERO);
            return;
        }
        recorder.told(u64::from(number) + 1);
    }
    store.close_blocking(PATIENCE).expect("written");
}

/// Checks one image against what was reported.
fn check(medium: &Medium, image: &Image, what: &str) {
    let run = tempfile::tempdir().expect("a folder");
    put(run.path(), image);
    let loaded = read(run.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let held = Held::of(&loaded);
    assert!(held.steps >= medium.told, "{what}: {} steps are left, {} were reported", held.steps, medium.told);
    assert_eq!(held.urls(), after(held.steps as u32).urls(), "{what}");
    // The states may be one transaction ahead.
    let states = [held.steps, held.steps + 1].map(|steps| after(steps as u32).states);
    assert!(states.contains(&held.states), "{what}: states of another time");
}

/// Puts an image into a run folder.
fn put(run: &Path, image: &Image) {
    let state = run.join("state");
    fs::create_dir_all(&state).expect("a folder");
    for (path, bytes) in image {
        fs::write(state.join(path.file_name().expect("a name")), bytes).expect("written");
    }
}

#[test]
fn row_13_whatever_a_loss_of_power_leaves_of_a_short_run_opens_with_all_that_was_reported() {
    let run = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::default();
    steps(run.path(), &recorder, 0..5);
    let mut images = 0;
    for done in 0..=recorder.len() {
        let medium = recorder.power_lost_after(done);
        images += medium.images(|image| check(&medium, image, &format!("after operation {done}")));
    }
    assert_eq!(recorder.power_lost_after(recorder.len()).told, 5, "all was reported in the end");
    assert!(images > 500, "only {images} images");
}

#[test]
fn row_13_a_loss_of_power_in_a_longer_run_loses_nothing_that_was_reported() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let run = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::default();
    steps(run.path(), &recorder, 0..30);
    for done in 0..=recorder.len() {
        let medium = recorder.power_lost_after(done);
        for _ in 0..4 {
            let image = medium.image(&mut |of| random.usize(0..of));
            check(&medium, &image, &format!("seed {seed}, after operation {done}"));
        }
    }
}

#[test]
fn row_13_a_loss_of_power_after_a_kill_brings_nothing_back_that_was_cut_off() {
    const STEPS: u32 = 4;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for killed_at in 1.. {
        let run = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::default();
        recorder.kill_at(Some(killed_at));
        steps(run.path(), &recorder, 0..STEPS);
        let dead = recorder.len();
        recorder.kill_at(None);
        // Its writes are in the page cache; another process goes on with them.
        let found = Held::of(&read(run.path()).expect("whole")).steps as u32;
        steps(run.path(), &recorder, found..STEPS + 1);
        for done in dead..=recorder.len() {
            let medium = recorder.power_lost_after(done);
            for _ in 0..3 {
                let image = medium.image(&mut |of| random.usize(0..of));
                check(&medium, &image, &format!("seed {seed}, killed at {killed_at}, after operation {done}"));
            }
        }
        if dead < killed_at {
            assert!(killed_at > 20, "only {killed_at} operations");
            return;
        }
    }
}
