//! Cgroup plans in TOML.
//!
//! ```toml
//! include = ["common.toml"]            # files in the directory of this file, read first
//!
//! [template.database]                  # what several groups have in common
//! template = "base"                    # a template may be based on another template
//! memory.max = "8G"
//!
//! [group.test1]
//! template = "database"
//! pin = "node:0"                       # CPUs by the host's topology; see `dayfly cgroup pin --help`
//! cpu.weight = 200                     # CONTROLLER.FILE, by v1 or v2 names
//! "cpu.max.burst" = 1000               # in quotes if a part of the name (cpu.max) is a file, too
//! task = "oracle:dba"                  # who may move tasks into it
//! admin = "root:root"                  # who may change it
//! modes = { directory = "0755", files = "0644", tasks = "0664" }
//!
//! [group.worker]
//! parent = "test1"                     # the path is test1/worker, as with [group."test1/worker"]
//! controllers = ["cpu", "memory"]      # the v1 hierarchies that contain the group, by default all
//! io.max = ["8:0 rbps=1048576", "8:16 wiops=100"]   # several lines
//! ```

use super::{CgroupPlan, GroupPlan, Include, Parent, Setting, Source};
use crate::account;
use crate::group::Group;
use crate::options::Ownership;
use report::Error;
use spec::word;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Parses `text` (the content of `path`) and the files that it includes.
///
/// # Errors
/// The mistake, with file and line.
pub fn parse(text: &str, path: &Path) -> Result<CgroupPlan, Error> {
    let mut files = Files::default();
    files.read(path, Some(text), None)?;
    let mut plan = CgroupPlan::default();
    for name in files.groups.keys() {
        let raw = files.group(name)?;
        plan.groups.push(raw.finished(&files, name)?);
    }
    plan.groups.sort_by(|one, other| one.source.cmp(&other.source));
    plan.includes = files.includes;
    Ok(plan)
}

/// The maximum depth of templates that are based on templates, and of nested groups.
const DEEPEST: usize = 64;

/// The content of all files.
#[derive(Debug, Default)]
struct Files {
    groups: BTreeMap<String, Raw>,
    templates: BTreeMap<String, Raw>,
    /// The files being read, the outermost first.
    open: Vec<PathBuf>,
    done: Vec<PathBuf>,
    includes: Vec<Include>,
}

/// A group or template as written.
#[derive(Debug, Clone)]
struct Raw {
    source: Source,
    template: Option<(String, Source)>,
    parent: Option<(String, Source)>,
    make_parent: bool,
    controllers: Vec<String>,
    ownership: Ownership,
    pin: Option<Setting>,
    settings: Vec<Setting>,
    places: Vec<(String, Source)>,
}

/// A file's name and the offsets of its line breaks.
struct Text {
    file: Rc<str>,
    ends: Vec<usize>,
}

impl Text {
    fn of(path: &Path, content: &str) -> Self {
        let ends = content.match_indices('\n').map(|(at, _)| at).collect();
        Self { file: path.display().to_string().into(), ends }
    }

    fn source(&self, at: usize) -> Source {
        Source { file: Rc::clone(&self.file), line: self.ends.partition_point(|end| *end < at) + 1 }
    }
}

type Entry<'a> = (&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>);

impl Files {
    /// Reads a file, or uses `text` if it is given. Errors name the line that includes the file.
    fn read(
        &mut self,
        path: &Path,
        text: Option<&str>,
        from: Option<&Source>,
    ) -> Result<(), Error> {
        let failed = |error: Error| match from {
            Some(source) => error.sourced(source.to_string()),
            None => error,
        };
        let name = match path.canonicalize() {
            Err(_) if text.is_some() => path.to_owned(),
            result => result.map_err(|error| failed(Error::of("open", path)(error)))?,
        };
        if let Some(at) = self.open.iter().position(|open| *open == name) {
            let chain: Vec<String> = self.open[at..]
                .iter()
                .chain([&name])
                .map(|file| file.file_name().unwrap_or_default().to_string_lossy().into_owned())
                .collect();
            let reason = format!("files include each other in a circle: {}", chain.join(" → "));
            return Err(
                from.map_or_else(|| Error::refused(&*reason), |source| source.error(&*reason))
            );
        }
        if self.done.contains(&name) {
            return Ok(());
        }
        let content = match text {
            Some(text) => text.to_owned(),
            None => super::read(path).map_err(failed)?,
        };
        let text = Text::of(path, &content);
        let root = DeTable::parse(&content).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            text.source(at).error(error.message())
        })?;
        self.open.push(name.clone());
        for (key, value) in root.get_ref() {
            match key.get_ref().as_ref() {
                "include" => {
                    for (file, source) in strings(&text, value)? {
                        let include = Include { file: file.into(), source: source.clone() };
                        let beside = path.parent().unwrap_or(Path::new(".")).join(&include.file);
                        self.includes.push(include);
                        self.read(&beside, None, Some(&source))?;
                    }
                }
                "group" => self.tables(&text, value, false)?,
                "template" => self.tables(&text, value, true)?,
                other => {
                    return Err(unknown(
                        &text,
                        key.span().start,
                        other,
                        &["include", "group", "template"],
                    ));
                }
            }
        }
        self.open.pop();
        self.done.push(name);
        Ok(())
    }

    fn tables(
        &mut self,
        text: &Text,
        value: &Spanned<DeValue<'_>>,
        template: bool,
    ) -> Result<(), Error> {
        for (name, value) in table(text, value)? {
            let raw = Raw::read(text, name.span().start, value)?;
            let all = if template { &mut self.templates } else { &mut self.groups };
            let name = name.get_ref().trim_matches('/').to_owned();
            if let Some(other) = all.get(&name) {
                let reason = format!("{name:?} is at {} already", other.source);
                return Err(raw.source.error(reason));
            }
            all.insert(name, raw);
        }
        Ok(())
    }

    /// Returns a group with its own values and those of its template, including the templates that this template is
    /// based on.
    fn group(&self, name: &str) -> Result<Raw, Error> {
        let raw = self.groups.get(name).cloned();
        let mut raw = raw.ok_or_else(|| Error::refused(format!("there is no group {name:?}")))?;
        let mut seen: Vec<String> = Vec::new();
        while let Some((name, source)) = raw.template.take() {
            if seen.contains(&name) {
                let chain = seen.join(" → ");
                let reason = format!("templates build on each other in a circle: {chain} → {name}");
                return Err(source.error(reason));
            }
            if seen.len() == DEEPEST {
                let reason = format!("more than {DEEPEST} templates build on each other");
                return Err(source.error(reason));
            }
            let Some(template) = self.templates.get(&name).cloned() else {
                return Err(no_such(&source, "template", &name, self.templates.keys()));
            };
            seen.push(name);
            raw = raw.over(template);
        }
        Ok(raw)
    }

    /// Returns the path of a group: its parents' names and its own.
    fn path(&self, name: &str) -> Result<String, Error> {
        let mut path = name.to_owned();
        let mut seen = vec![name.to_owned()];
        let mut current = self.groups.get(name);
        while let Some((parent, source)) = current.and_then(|raw| raw.parent.as_ref()) {
            if seen.contains(parent) {
                let reason = format!(
                    "groups are each other's parents in a circle: {} → {parent}",
                    seen.join(" → ")
                );
                return Err(source.error(reason));
            }
            if seen.len() > DEEPEST {
                return Err(source.error(format!("more than {DEEPEST} groups inside each other")));
            }
            seen.push(parent.clone());
            path = format!("{parent}/{path}");
            // A parent that the cgroup plan does not define may exist on the host.
            current = self.groups.get(parent.trim_matches('/'));
        }
        Ok(path)
    }

    /// Returns the parent of a group, unless the cgroup plan makes it.
    fn host_parent(&self, name: &str) -> Result<Option<Parent>, Error> {
        let raw = self.groups.get(name).filter(|raw| !raw.make_parent);
        let Some((named, source)) = raw.and_then(|raw| raw.parent.as_ref()) else {
            return Ok(None);
        };
        let named = named.trim_matches('/');
        let group = Group::at(named).map_err(|reason| source.error(reason))?;
        let is_made = |name: &str| {
            name == group.path
                || name.strip_prefix(&group.path).is_some_and(|rest| rest.starts_with('/'))
        };
        let mut paths = self.groups.iter().filter(|(_, raw)| raw.parent.is_none());
        if self.groups.contains_key(named) || paths.any(|(name, _)| is_made(name)) {
            return Ok(None);
        }
        let others = self.groups.keys().filter(|other| *other != name);
        let similar = word::nearest(named, others).cloned();
        Ok(Some(Parent { group, source: source.clone(), similar }))
    }
}

impl Raw {
    fn read(text: &Text, at: usize, value: &Spanned<DeValue<'_>>) -> Result<Self, Error> {
        let mut raw = Self {
            source: text.source(at),
            template: None,
            parent: None,
            make_parent: false,
            controllers: Vec::new(),
            ownership: Ownership::default(),
            pin: None,
            settings: Vec::new(),
            places: Vec::new(),
        };
        for (key, value) in table(text, value)? {
            let source = text.source(key.span().start);
            let owner = || {
                string(text, value)?
                    .parse()
                    .map(Some)
                    .map_err(|reason: String| source.error(reason))
            };
            match key.get_ref().as_ref() {
                "template" => raw.template = Some((string(text, value)?, source)),
                "parent" => raw.parent = Some((string(text, value)?, source)),
                "make_parent" => match value.get_ref() {
                    DeValue::Boolean(make) => raw.make_parent = *make,
                    _ => return Err(source.error("make_parent is true or false")),
                },
                "controllers" => {
                    let names = strings(text, value)?;
                    raw.controllers = names.iter().map(|(name, _)| name.clone()).collect();
                    raw.places.extend(names);
                }
                "pin" => {
                    let (key, value) = ("pin".to_owned(), string(text, value)?);
                    raw.pin = Some(Setting { key, value, source });
                }
                whose @ ("task" | "admin") => {
                    let is_task = whose == "task";
                    let given = owner()?;
                    let ownership = &mut raw.ownership;
                    *(if is_task { &mut ownership.task } else { &mut ownership.admin }) = given;
                    raw.places.push((whose.to_owned(), source));
                }
                "modes" => raw.modes(text, value)?,
                name => flatten(text, name, (key, value), &mut raw.settings)?,
            }
        }
        Ok(raw)
    }

    fn modes(&mut self, text: &Text, value: &Spanned<DeValue<'_>>) -> Result<(), Error> {
        for (key, value) in table(text, value)? {
            let mode = account::mode(&string(text, value)?)
                .map_err(|reason| text.source(value.span().start).error(reason))?;
            let place = match key.get_ref().as_ref() {
                "directory" => &mut self.ownership.directory_mode,
                "files" => &mut self.ownership.file_mode,
                "tasks" => &mut self.ownership.task_mode,
                other => {
                    return Err(unknown(
                        text,
                        key.span().start,
                        other,
                        &["directory", "files", "tasks"],
                    ));
                }
            };
            *place = Some(mode);
        }
        Ok(())
    }

    /// Returns the values of `self`, and those values of `template` that `self` does not set.
    fn over(self, template: Self) -> Self {
        let is_own = |key: &str| self.settings.iter().any(|own| own.key == key);
        let mut settings: Vec<Setting> =
            template.settings.into_iter().filter(|setting| !is_own(&setting.key)).collect();
        settings.extend(self.settings.iter().cloned());
        // The group's own lines come first, so that they are found first.
        let places = [self.places, template.places].concat();
        let (own, other) = (self.ownership, template.ownership);
        Self {
            template: template.template,
            controllers: if self.controllers.is_empty() {
                template.controllers
            } else {
                self.controllers
            },
            ownership: Ownership {
                task: own.task.or(other.task),
                admin: own.admin.or(other.admin),
                directory_mode: own.directory_mode.or(other.directory_mode),
                file_mode: own.file_mode.or(other.file_mode),
                task_mode: own.task_mode.or(other.task_mode),
            },
            pin: self.pin.or(template.pin),
            parent: self.parent.or(template.parent),
            make_parent: self.make_parent,
            source: self.source,
            settings,
            places,
        }
    }

    fn finished(self, files: &Files, name: &str) -> Result<GroupPlan, Error> {
        let path = files.path(name)?;
        let group = Group::at(&path).map_err(|reason| self.source.error(reason))?;
        if group.path.is_empty() {
            return Err(self.source.error("the root of a hierarchy cannot be in a cgroup plan"));
        }
        Ok(GroupPlan {
            parent: files.host_parent(name)?,
            group: Group { controllers: self.controllers, ..group },
            source: self.source,
            ownership: self.ownership,
            settings: self.settings,
            pin: self.pin,
            places: self.places,
        })
    }
}

/// Turns `memory = { swap = { max = 0 } }` into `memory.swap.max`. Values are not checked here.
fn flatten(
    text: &Text,
    name: &str,
    (key, value): Entry<'_>,
    settings: &mut Vec<Setting>,
) -> Result<(), Error> {
    let source = text.source(key.span().start);
    match value.get_ref() {
        DeValue::Table(_) => {
            for (key, value) in table(text, value)? {
                flatten(text, &format!("{name}.{}", key.get_ref()), (key, value), settings)?;
            }
        }
        DeValue::Array(_) => {
            for (value, source) in strings(text, value)? {
                settings.push(Setting { key: name.to_owned(), value, source });
            }
        }
        _ if !name.contains('.') => {
            let known = [
                "template",
                "parent",
                "make_parent",
                "controllers",
                "pin",
                "task",
                "admin",
                "modes",
            ];
            return Err(unknown(text, key.span().start, name, &known));
        }
        _ => {
            let value = scalar(text, value)?;
            settings.push(Setting { key: name.to_owned(), value, source });
        }
    }
    Ok(())
}

fn table<'a>(text: &Text, value: &'a Spanned<DeValue<'a>>) -> Result<Vec<Entry<'a>>, Error> {
    match value.get_ref() {
        DeValue::Table(table) => {
            let mut entries: Vec<Entry<'a>> = table.iter().collect();
            // The entries are sorted by their position in the file, so that the first mistake is
            // reported first.
            entries.sort_by_key(|(key, _)| key.span().start);
            Ok(entries)
        }
        _ => Err(text.source(value.span().start).error("there should be a table here")),
    }
}

fn string(text: &Text, value: &Spanned<DeValue<'_>>) -> Result<String, Error> {
    match value.get_ref() {
        DeValue::String(string) => Ok(string.to_string()),
        _ => Err(text.source(value.span().start).error("a quoted text is expected here")),
    }
}

/// Returns a string or number as text.
fn scalar(text: &Text, value: &Spanned<DeValue<'_>>) -> Result<String, Error> {
    match value.get_ref() {
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
            let wrong = || text.source(value.span().start).error("a number too large for 64 bits");
            Ok(number.ok_or_else(wrong)?.to_string())
        }
        DeValue::Boolean(set) => Ok(u8::from(*set).to_string()),
        _ => string(text, value),
    }
}

/// Returns a string, or a list of strings, as a list.
fn strings(text: &Text, value: &Spanned<DeValue<'_>>) -> Result<Vec<(String, Source)>, Error> {
    let one =
        |value: &Spanned<DeValue<'_>>| Ok((scalar(text, value)?, text.source(value.span().start)));
    match value.get_ref() {
        DeValue::Array(values) => values.iter().map(one).collect(),
        _ => Ok(vec![one(value)?]),
    }
}

fn unknown(text: &Text, at: usize, name: &str, known: &[&str]) -> Error {
    let error = text.source(at).error(format!("there is no key {name:?}"));
    match word::nearest(name, known) {
        Some(name) => error.advise(format!("did you mean {name}?")),
        None => error.advise(format!("there are {}, and CONTROLLER.FILE", known.join(", "))),
    }
}

fn no_such<'a>(
    source: &Source,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a String>,
) -> Error {
    let error = source.error(format!("there is no {what} {name:?}"));
    match word::nearest(name, known) {
        Some(name) => error.advise(format!("did you mean {name}?")),
        None => error,
    }
}

#[cfg(test)]
#[path = "toml_tests.rs"]
mod tests;
