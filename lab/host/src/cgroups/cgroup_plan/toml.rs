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

use super::*;
use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};
use spec::word;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Parses `text` (the content of `path`) and the files that it includes.
///
/// # Errors
/// The mistake, with file and line.
pub fn parse(text: &str, path: &Path) -> Result<CgroupPlan, Error> {
    let mut files = Files::default();
    files.read(path, Some(text), None)?;
    let groups = files.groups.keys().map(|name| files.group(name)).collect::<Result<Vec<_>, _>>();
    let mut groups = groups?;
    groups.sort_by(|one, other| one.source.cmp(&other.source));
    Ok(CgroupPlan { groups, includes: files.includes, ..CgroupPlan::default() })
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
    includes: Vec<Named>,
}

/// A group or template as written.
#[derive(Debug, Clone, Default)]
struct Raw {
    template: Option<Named>,
    parent: Option<Named>,
    make_parent: bool,
    /// The rest, without path and parent.
    plan: GroupPlan,
}

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
            result => result.map_err(Error::of("open", path)).map_err(failed)?,
        };
        if let Some(at) = self.open.iter().position(|open| *open == name) {
            let chain = self.open[at..].iter().chain([&name]);
            let names = chain.map(|file| file.file_name().unwrap_or_default().to_string_lossy());
            let names = names.collect::<Vec<_>>().join(" → ");
            return Err(failed(refused!("files include each other in a circle: {names}")));
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
            let node = Node { text: &text, value };
            match key.get_ref().as_ref() {
                "include" => {
                    for (file, source) in node.strings()? {
                        let beside = path.parent().unwrap_or(Path::new(".")).join(&file);
                        self.includes.push((file, source.clone()));
                        self.read(&beside, None, Some(&source))?;
                    }
                }
                "group" => tables(&mut self.groups, node)?,
                "template" => tables(&mut self.templates, node)?,
                other => {
                    let known = ["include", "group", "template"];
                    return Err(text.source(key.span().start).unknown("key", other, &known, MORE));
                }
            }
        }
        self.open.pop();
        self.done.push(name);
        Ok(())
    }

    /// Returns a group with its own values and those of its template, including the templates that this template is
    /// based on.
    fn group(&self, name: &str) -> Result<GroupPlan, Error> {
        let mut raw = self.groups.get(name).cloned().unwrap_or_default();
        let mut seen: Vec<String> = Vec::new();
        while let Some(link) = raw.template.take() {
            let what = "templates build on each other";
            follow(&mut seen, &link, what, what)?;
            let (name, source) = link;
            let Some(template) = self.templates.get(&name).cloned() else {
                let error = source.error(format!("there is no template {name:?}"));
                return Err(suggest(error, &name, self.templates.keys(), None));
            };
            raw = raw.over(template);
        }
        let plan = raw.plan;
        let path = self.path(name)?;
        let at = Group::at(&path).map_err(|reason| plan.source.error(reason))?;
        if at.path.is_empty() {
            return Err(plan.source.error("the root of a hierarchy cannot be in a cgroup plan"));
        }
        let group = Group { controllers: plan.group.controllers, ..at };
        Ok(GroupPlan { group, parent: self.host_parent(name)?, ..plan })
    }

    /// Returns the path of a group: its parents' names and its own.
    fn path(&self, name: &str) -> Result<String, Error> {
        let mut path = name.to_owned();
        let mut seen = vec![name.to_owned()];
        let mut current = self.groups.get(name);
        while let Some(link) = current.and_then(|raw| raw.parent.as_ref()) {
            follow(&mut seen, link, "groups are each other's parents", "groups inside each other")?;
            let (parent, _) = link;
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
            let below = name.strip_prefix(&group.path);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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

/// Adds a name to those that were followed before. Rejects a name that is one of them, and too many of them.
fn follow(
    seen: &mut Vec<String>,
    (name, source): &Named,
    circle: &str,
    many: &str,
) -> Result<(), Error> {
    if seen.contains(name) {
        let chain = seen.join(" → ");
        return Err(source.error(format!("{circle} in a circle: {chain} → {name}")));
    }
    if seen.len() > DEEPEST {
        return Err(source.error(format!("more than {DEEPEST} {many}")));
    }
    seen.push(name.clone());
    Ok(())
}

/// Reads the groups or templates of a file, and adds them to those of earlier files.
fn tables(all: &mut BTreeMap<String, Raw>, node: Node<'_>) -> Result<(), Error> {
    for (name, source, node) in node.table()? {
        let raw = Raw::read(source, node)?;
        let name = name.trim_matches('/').to_owned();
        if let Some(other) = all.get(&name) {
            let reason = format!("{name:?} is at {} already", other.plan.source);
            return Err(raw.plan.source.error(reason));
        }
        all.insert(name, raw);
    }
    Ok(())
}

impl Raw {
    fn read(source: Source, node: Node<'_>) -> Result<Self, Error> {
        let mut raw =
            Self { plan: GroupPlan { source, ..GroupPlan::default() }, ..Self::default() };
        let plan = &mut raw.plan;
        for (key, source, node) in node.table()? {
            match key {
                "template" => raw.template = Some((node.string()?, source)),
                "parent" => raw.parent = Some((node.string()?, source)),
                "make_parent" => match node.value.get_ref() {
                    DeValue::Boolean(make) => raw.make_parent = *make,
                    _ => return Err(source.error("make_parent is true or false")),
                },
                "controllers" => {
                    let names = node.strings()?;
                    plan.group.controllers = names.iter().map(|(name, _)| name.clone()).collect();
                    plan.places.extend(names);
                }
                "pin" => {
                    let (key, value) = ("pin".to_owned(), node.string()?);
                    plan.pin = Some(Setting { key, value, source });
                }
                "task" | "admin" => {
                    let owner = node.string()?.parse();
                    let owner = owner.map_err(|reason: String| source.error(reason))?;
                    *plan.ownership.owner(key) = Some(owner);
                    plan.places.push((key.to_owned(), source));
                }
                "modes" => modes(&mut plan.ownership, node)?,
                name => flatten(name, source, node, &mut plan.settings)?,
            }
        }
        Ok(raw)
    }

    /// Returns the values of `self`, and those values of `template` that `self` does not set.
    fn over(self, template: Self) -> Self {
        let (own, other) = (self.plan, template.plan);
        let is_own = |key: &str| own.settings.iter().any(|own| own.key == key);
        let inherited = other.settings.into_iter().filter(|setting| !is_own(&setting.key));
        let settings = inherited.chain(own.settings.iter().cloned()).collect();
        let mut group = own.group;
        if group.controllers.is_empty() {
            group = other.group;
        }
        let plan = GroupPlan {
            group,
            settings,
            ownership: Ownership {
                task: own.ownership.task.or(other.ownership.task),
                admin: own.ownership.admin.or(other.ownership.admin),
                directory_mode: own.ownership.directory_mode.or(other.ownership.directory_mode),
                file_mode: own.ownership.file_mode.or(other.ownership.file_mode),
                task_mode: own.ownership.task_mode.or(other.ownership.task_mode),
            },
            pin: own.pin.or(other.pin),
            // The group's own lines come first, so that they are found first.
            places: [own.places, other.places].concat(),
            source: own.source,
            parent: None,
        };
        Self { template: template.template, plan, ..self }
    }
}

fn modes(ownership: &mut Ownership, node: Node<'_>) -> Result<(), Error> {
    for (key, source, node) in node.table()? {
        let mode = account::mode(&node.string()?).map_err(|reason| node.source().error(reason))?;
        let place = match key {
            "directory" => &mut ownership.directory_mode,
            "files" => &mut ownership.file_mode,
            "tasks" => &mut ownership.task_mode,
            other => {
                return Err(source.unknown("key", other, &["directory", "files", "tasks"], MORE));
            }
        };
        *place = Some(mode);
    }
    Ok(())
}

/// The keys of a group that are not files.
const KEYS: [&str; 8] =
    ["template", "parent", "make_parent", "controllers", "pin", "task", "admin", "modes"];

/// What a group may contain beside them.
const MORE: &str = ", and CONTROLLER.FILE";

/// Turns `memory = { swap = { max = 0 } }` into `memory.swap.max`. Values are not checked here.
fn flatten(
    name: &str,
    source: Source,
    node: Node<'_>,
    settings: &mut Vec<Setting>,
) -> Result<(), Error> {
    let setting = |(value, source)| Setting { key: name.to_owned(), value, source };
    match node.value.get_ref() {
        DeValue::Table(_) => {
            for (key, source, node) in node.table()? {
                flatten(&format!("{name}.{key}"), source, node, settings)?;
            }
        }
        DeValue::Array(_) => settings.extend(node.strings()?.into_iter().map(setting)),
        _ if !name.contains('.') => return Err(source.unknown("key", name, &KEYS, MORE)),
        _ => settings.push(setting((node.scalar()?, source))),
    }
    Ok(())
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

/// A value in a file.
#[derive(Clone, Copy)]
struct Node<'a> {
    text: &'a Text,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Node<'a> {
    fn source(self) -> Source {
        self.text.source(self.value.span().start)
    }

    /// Returns the entries of a table: key, line and value, in the order of the file, so that the first mistake is
    /// reported first.
    fn table(self) -> Result<Vec<(&'a str, Source, Self)>, Error> {
        let DeValue::Table(table) = self.value.get_ref() else {
            return Err(self.source().error("there should be a table here"));
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&'a Spanned<_>, _)| {
            let name: &std::borrow::Cow<'a, str> = key.get_ref();
            (name.as_ref(), self.text.source(key.span().start), Self { value, ..self })
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn string(self) -> Result<String, Error> {
        match self.value.get_ref() {
            DeValue::String(string) => Ok(string.to_string()),
            _ => Err(self.source().error("a quoted text is expected here")),
        }
    }

    /// Returns a string or number as text.
    fn scalar(self) -> Result<String, Error> {
        match self.value.get_ref() {
            DeValue::Integer(number) => {
                let number = i64::from_str_radix(number.as_str(), number.radix());
                let wrong = |_| self.source().error("a number too large for 64 bits");
                Ok(number.map_err(wrong)?.to_string())
            }
            DeValue::Boolean(set) => Ok(u8::from(*set).to_string()),
            _ => self.string(),
        }
    }

    /// Returns a string, or a list of strings, as a list.
    fn strings(self) -> Result<Vec<Named>, Error> {
        let one = |node: Self| Ok((node.scalar()?, node.source()));
        match self.value.get_ref() {
            DeValue::Array(values) => {
                values.iter().map(|value| one(Self { value, ..self })).collect()
            }
            _ => Ok(vec![one(self)?]),
        }
    }
}

#[cfg(test)]
#[path = "toml_tests.rs"]
mod tests;
