//! The file as typed: tables and values with their places, read key by key.
//!
//! A derived deserialiser stops at its first error and names no place for most of them. So the parsed
//! document is walked instead: each section asks for the keys it knows and says how a value is read;
//! every wrong value, and at the end every key that nobody asked for, becomes an error at its place.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Report;
use super::nearest::nearest;

/// One table of the file while it is read.
#[derive(Debug)]
pub(super) struct Section<'t> {
    /// How errors name it: `[politeness]`, `[[host]]`; empty at the top.
    title: String,
    /// Where it stands.
    span: Range<usize>,
    table: &'t DeTable<'t>,
    known: Vec<&'static str>,
    report: &'t Report,
}

impl<'t> Section<'t> {
    /// The whole file.
    pub(super) fn top(document: &'t Spanned<DeTable<'t>>, report: &'t Report) -> Self {
        let span = document.span();
        Self { title: String::new(), span, table: document.get_ref(), known: Vec::new(), report }
    }

    /// The value of `key`, which is known from now on.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.known.push(key);
        self.table.get(key)
    }

    /// The value of `key` as `read` understands it; `None` if it is absent or wrong (then reported).
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        self.checked(key, value, read)
    }

    /// Sets `target` to the value of `key`; leaves it alone if that is absent or wrong.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) {
        if let Some(value) = self.read(key, read) {
            *target = value;
        }
    }

    /// The elements of the list `key`, each as `read` understands it.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let value = self.value(key)?;
        let Some(elements) = value.get_ref().as_array() else {
            self.wrong(key, value.span(), &wrong_type(value.get_ref(), "a list, such as [\"a\", \"b\"]"));
            return None;
        };
        Some(elements.iter().filter_map(|element| self.checked(key, element, &read)).collect())
    }

    /// The entries of the table `key` whose names the user chooses, each as `read` understands it.
    pub(super) fn entries<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&str, &DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(key, value.span(), &wrong_type(value.get_ref(), "a table, such as { \"a\" = \"b\" }"));
            return None;
        };
        let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = name.get_ref();
            self.checked(key, value, |value| read(name, value))
        };
        Some(table.iter().filter_map(entry).collect())
    }

    /// The table `[key]`, if it is there.
    pub(super) fn section(&mut self, key: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        let title = format!("[{key}]");
        let Some(table) = value.get_ref().as_table() else {
            self.report.error(value.span().start, wrong_type(value.get_ref(), &format!("the section {title}")));
            return None;
        };
        Some(self.inner(title, value.span(), table))
    }

    /// The tables `[[key]]`; `path` is how the file writes it, such as `host.endpoint`.
    pub(super) fn sections(&mut self, key: &'static str, path: &str) -> Vec<Self> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let title = format!("[[{path}]]");
        let Some(elements) = value.get_ref().as_array() else {
            let wanted = format!("a section {title} for each (in double brackets)");
            self.report.error(value.span().start, wrong_type(value.get_ref(), &wanted));
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(elements.len());
        for element in elements {
            match element.get_ref().as_table() {
                Some(table) => sections.push(self.inner(title.clone(), element.span(), table)),
                None => {
                    let wanted = format!("a section {title}");
                    self.report.error(element.span().start, wrong_type(element.get_ref(), &wanted));
                }
            }
        }
        sections
    }

    /// Reports something about the value of `key`, or about the section if the key is absent.
    pub(super) fn error(&self, key: &str, message: &str) {
        let place = self.table.get(key).map_or(self.span.start, |value| value.span().start);
        self.report.error(place, format!("{}: {message}", self.name(key)));
    }

    /// Reports something about the entry `name` of the table `key`.
    pub(super) fn error_in(&self, key: &str, name: &str, message: &str) {
        let table = self.table.get(key).and_then(|value| value.get_ref().as_table());
        let place = table.and_then(|table| table.get(name)).map_or(self.span.start, |value| value.span().start);
        self.report.error(place, format!("{}: {message}", self.name(key)));
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        for (key, _) in self.table {
            if self.known.contains(&key.get_ref().as_ref()) {
                continue;
            }
            let typed = key.get_ref();
            let place = if self.title.is_empty() { String::new() } else { format!(" in {}", self.title) };
            let hint = match nearest(typed, self.known.iter().copied()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            self.report.error(key.span().start, format!("unknown key `{typed}`{place}; {hint}"));
        }
    }

    fn inner(&self, title: String, span: Range<usize>, table: &'t DeTable<'t>) -> Self {
        Self { title, span, table, known: Vec::new(), report: self.report }
    }

    fn checked<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        read(value.get_ref()).map_err(|message| self.wrong(key, value.span(), &message)).ok()
    }

    fn wrong(&self, key: &str, span: Range<usize>, message: &str) {
        self.report.error(span.start, format!("{}: {message}", self.name(key)));
    }

    fn name(&self, key: &str) -> String {
        if self.title.is_empty() { format!("`{key}`") } else { format!("`{key}` in {}", self.title) }
    }
}

/// The message for a value of the wrong type.
pub(super) fn wrong_type(value: &DeValue<'_>, wanted: &str) -> String {
    let found = match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    format!("this is {found}; write {wanted}")
}
