//! The command line, from keys to requests.

use super::*;
use crate::tui::model::Wish;
use crate::watch::Change;

/// Types a line into the command line and presses Enter.
fn enter(model: &mut Model, line: &str) -> Vec<Request> {
    type_in(model, line);
    press(model, "enter")
}

fn type_in(model: &mut Model, line: &str) {
    press(model, ":");
    let keymap = keymap();
    for c in line.chars() {
        assert_eq!(key(model, Key::char(c), &keymap, NOW), []);
    }
}

fn prompt(model: &Model) -> &Prompt {
    match &model.overlay {
        Overlay::Command(prompt) => prompt,
        other => panic!("no command line: {other:?}"),
    }
}

#[test]
fn a_line_acts_on_the_hosts_it_names() {
    let mut model = model();
    match enter(&mut model, "pause 30m is:angry").as_slice() {
        [Request::Act { command, targets, chosen_by, .. }] => {
            assert_eq!(*command, Command::Pause(Lifetime::For(Duration::from_secs(1800))));
            assert_eq!((targets.as_slice(), chosen_by.as_str()), (&[HostId(3), HostId(4)][..], "filter is:angry"));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(model.overlay, Overlay::None));
    select(&mut model, "wiki.br.test");
    assert_eq!(only(enter(&mut model, "auto")), (Command::Auto, 1));
    assert_eq!(enter(&mut model, "auto marked"), [], "nothing is marked");
    assert!(model.note.as_ref().is_some_and(|note| note.trouble));
    press(&mut model, "space");
    assert_eq!(only(enter(&mut model, "reset marked")), (Command::Reset, 1));
    assert_eq!(enter(&mut model, "pause is:stuck state:done"), [], "no host is meant");
}

#[test]
fn wanted_13_many_hosts_are_asked_about_with_count_names_and_change() {
    let mut model = many(40);
    assert_eq!(enter(&mut model, "rate 0.5 *.test for 2h"), []);
    let Overlay::Confirm(question) = &model.overlay else { panic!("asks first: {:?}", model.overlay) };
    let words: Vec<_> = question.lines.iter().map(Clean::as_str).collect();
    assert_eq!(words, ["40 hosts: override rate 0.5 for 2h?", "h0.test, h1.test, h2.test and 37 more"]);
    assert_eq!(press(&mut model, "enter"), [], "enter is no");
    enter(&mut model, "rate 0.5 all");
    assert_eq!(only(press(&mut model, "y")).1, 40);
}

#[test]
fn a_wake_of_many_still_asks_about_servers_that_asked() {
    let mut model = model();
    assert_eq!(enter(&mut model, "wake is:held"), []);
    assert!(matches!(&model.overlay, Overlay::Confirm(question) if question.command == Command::Wake(WakeEven::Asked)));
}

#[test]
fn a_wrong_line_stays_with_its_error() {
    let mut model = model();
    assert_eq!(enter(&mut model, "rate fast"), []);
    assert_eq!(prompt(&model).error.as_ref().map(Clean::as_str), Some("`fast` is not understood"));
    assert_eq!(prompt(&model).input.value(), "rate fast");
    press(&mut model, "backspace");
    assert_eq!(prompt(&model).error, None, "typing goes on");
    press(&mut model, "esc");
    assert!(matches!(model.overlay, Overlay::None));
}

#[test]
fn tab_completes_and_up_recalls() {
    let mut model = model();
    type_in(&mut model, "re");
    press(&mut model, "tab");
    assert_eq!(prompt(&model).input.value(), "resume ");
    press(&mut model, "tab tab");
    assert_eq!(prompt(&model).input.value(), "redo ");
    press(&mut model, "backtab backtab");
    assert_eq!(prompt(&model).input.value(), "resume ");
    press(&mut model, "esc");
    type_in(&mut model, "th");
    press(&mut model, "tab tab");
    assert_eq!(prompt(&model).input.value(), "theme auto ", "the only verb is taken, then its argument");
    press(&mut model, "tab esc");
    type_in(&mut model, "auto api.g");
    press(&mut model, "tab enter");
    enter(&mut model, "halt");
    press(&mut model, ": up");
    assert_eq!(prompt(&model).input.value(), "halt");
    press(&mut model, "up up up");
    assert_eq!(prompt(&model).input.value(), "auto api.gazet.test ");
    press(&mut model, "down down down");
    assert_eq!(prompt(&model).input.value(), "");
}

#[test]
fn the_crawl_and_the_screen_can_be_changed() {
    let mut model = model();
    for (line, expected) in [
        ("note asked by mail", Change::Note("asked by mail".into())),
        ("concurrency 8", Change::Concurrency(8)),
        ("exclude \\.pdf$", Change::Exclude("\\.pdf$".into())),
    ] {
        let requests = enter(&mut model, line);
        assert!(matches!(requests.as_slice(), [Request::Change { change, .. }] if *change == expected), "{requests:?}");
    }
    for (line, wish) in
        [("set fps 2", Wish::Fps(2)), ("theme mono", Wish::Theme("mono".into())), ("print", Wish::Print)]
    {
        assert_eq!(enter(&mut model, line), []);
        assert_eq!(std::mem::take(&mut model.wishes), [wish]);
    }
    press(&mut model, "y");
    assert!(matches!(model.wishes.as_slice(), [Wish::Copy(name)] if name.as_str() == "forum.oldca.test"));
}

#[test]
fn hosts_are_grouped_by_name_by_filter_and_under_the_cursor() {
    let mut model = model();
    let id = |model: &Model, name: &str| {
        model.rows.iter().flatten().find(|row| row.name.as_str() == name).expect(name).view.id
    };
    let (api, forum) = (id(&model, "api.gazet.test"), id(&model, "forum.oldca.test"));
    // A name that has another in it.
    let longer = model.rows.iter_mut().flatten().find(|row| row.name.as_str() == "wiki.br.test").expect("a host");
    longer.name = Clean::new("my-api.gazet.test");
    let mut hosts = |line: &str| match enter(&mut model, line).as_slice() {
        [Request::Change { change: Change::Group(hosts), .. }] => hosts.clone(),
        [Request::Change { change: Change::Ungroup(hosts), .. }] => hosts.clone(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(hosts("group API.gazet.test forum.oldca.test"), [api, forum]);
    assert_eq!(hosts("ungroup forum.oldca.test api.gaz*"), [forum, api]);
    assert_eq!(hosts("group"), [forum], "under the cursor: the engine knows with whom");
    assert_eq!(enter(&mut model, "group nobody.test"), []);
    assert!(model.note.as_ref().is_some_and(|note| note.trouble), "it is said");
}

#[test]
fn going_on_is_asked_about_from_the_command_line_too() {
    let mut model = model();
    assert_eq!(only(enter(&mut model, "halt")), (Command::Halt, 0));
    model.totals.halted = true;
    assert_eq!(enter(&mut model, "go-on"), []);
    assert!(matches!(&model.overlay, Overlay::Confirm(question) if question.command == Command::GoOn));
}

#[test]
fn the_concurrency_in_force_is_told_as_one_types() {
    let mut model = model();
    model.totals.concurrency = 8;
    type_in(&mut model, "concurrency ");
    assert_eq!(preview(&model, prompt(&model), NOW), "N: fetches in flight at most, now 8");
}
