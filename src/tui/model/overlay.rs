//! What lies over a screen, what is asked of the screen's thread, and words on the footer.

use std::sync::Arc;

use tui_input::Input;

use crate::control::{Command, HostId, Mono};
use crate::text::Clean;
use crate::watch::UiSettings;

/// What lies over the table, if anything.
#[derive(Clone, Debug, Default)]
pub enum Overlay {
    /// Nothing.
    #[default]
    None,
    /// The keys; typing searches.
    Help {
        /// What was typed.
        search: Input,
    },
    /// One line about each simulated host.
    Legend,
    /// The override prompt.
    Override {
        /// What was typed.
        input: Input,
        /// Whom it is for.
        targets: Vec<HostId>,
    },
    /// The command line.
    Command(crate::tui::update::Prompt),
    /// The filter prompt.
    Filter {
        /// What was typed.
        input: Input,
    },
    /// A yes-or-no question; Enter is no.
    Confirm(Question),
    /// Leave the crawl?
    Leave,
    /// Sort by what; the position in the menu.
    Sort {
        /// Row of the menu.
        at: usize,
    },
}

/// What only the screen's thread can do, asked for by a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Write this screen into the run folder.
    Print,
    /// So many frames a second.
    Fps(u32),
    /// Another theme, by name or file.
    Theme(String),
    /// Listen to the mouse, or do not.
    Mouse(bool),
    /// Put this into the terminal's clipboard.
    Copy(Clean),
    /// The configuration says this about the screen from now on.
    Configure(Arc<UiSettings>),
}

/// A question before a far-reaching act.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// The question, one line each.
    pub lines: Vec<Clean>,
    /// What to do on yes.
    pub command: Command,
    /// To whom.
    pub targets: Vec<HostId>,
    /// How they were chosen.
    pub chosen_by: Clean,
}

/// A word on the footer line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The words.
    pub text: Clean,
    /// Since when.
    pub since: Mono,
    /// Whether it tells of trouble.
    pub trouble: bool,
}
