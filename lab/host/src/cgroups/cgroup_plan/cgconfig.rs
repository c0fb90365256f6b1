//! The format of libcgroup's cgconfig.conf(5).
//!
//! A file may contain `mount`, `group`, `template` and `default` sections. A `perm` section contains `task` (uid, gid,
//! fperm) and `admin` (uid, gid, fperm, dperm). A section that is named after a controller creates the group in the
//! hierarchy of that controller.

use super::*;

/// Returns whether a text looks more like this format than like TOML.
pub fn looks_like(text: &str) -> bool {
    let mut words =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = words.next().unwrap_or_default();
    let sections = ["mount", "group", "template", "default", "namespace"];
    let name = first.split([' ', '\t', '{']).next().unwrap_or_default();
    sections.contains(&name) && !first.contains('=')
}

/// Parses the text.
///
/// # Errors
/// The mistake, with file and line.
pub fn parse(text: &str, path: &Path) -> Result<CgroupPlan, Error> {
    let mut parser = Parser {
        tokens: tokens(text, path)?,
        at: 0,
        file: path.display().to_string().into(),
        places: Vec::new(),
    };
    let mut plan = CgroupPlan::default();
    let mut default = Ownership::default();
    while let Some((kind, source)) = parser.next() {
        match kind {
            Kind::Word(section) => match section.as_str() {
                "mount" => parser.mounts(&mut plan)?,
                "group" => plan.groups.push(parser.group(&source, &default)?),
                "template" => plan.templates.push(parser.group(&source, &default)?),
                "default" => default = parser.default()?,
                "namespace" => {
                    return Err(source.error(
                        "namespace sections are not supported: Linux 3.0 removed the ns subsystem",
                    ));
                }
                other => {
                    let known = ["mount", "group", "template", "default"];
                    return Err(source.unknown("section", other, &known, ""));
                }
            },
            Kind::Sign(sign) => return Err(source.error(format!("a section, not {sign:?}"))),
        }
    }
    Ok(plan)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Word(String),
    Sign(char),
}

/// A token and its line.
type Token = (Kind, Source);

fn tokens(text: &str, path: &Path) -> Result<Vec<Token>, Error> {
    let file: Rc<str> = path.display().to_string().into();
    let mut tokens = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let source = Source { file: Rc::clone(&file), line };
        let mut rest = content.trim_start();
        while let Some(first) = rest.chars().next().filter(|first| *first != '#') {
            let kind = match first {
                '{' | '}' | '=' | ';' => {
                    rest = &rest[1..];
                    Kind::Sign(first)
                }
                '"' => {
                    let Some((word, after)) = rest[1..].split_once('"') else {
                        return Err(source.error("a quoted text that does not end on its line"));
                    };
                    rest = after;
                    Kind::Word(word.to_owned())
                }
                _ => {
                    let end = rest.find(|c: char| c.is_whitespace() || "{}=;\"#".contains(c));
                    let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
                    rest = after;
                    Kind::Word(word.to_owned())
                }
            };
            tokens.push((kind, source.clone()));
            rest = rest.trim_start();
        }
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    file: Rc<str>,
    /// The lines of the current group: see [`GroupPlan::places`].
    places: Vec<Named>,
}

impl Parser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn required(&mut self, what: &str) -> Result<Token, Error> {
        let line = self.tokens.last().map_or(1, |(_, source)| source.line);
        let end = Source { file: Rc::clone(&self.file), line };
        self.next().ok_or_else(|| end.error(format!("the file ends where {what} should be")))
    }

    fn sign(&mut self, sign: char) -> Result<(), Error> {
        match self.required(&format!("{sign:?}"))? {
            (Kind::Sign(found), _) if found == sign => Ok(()),
            (Kind::Sign(found), at) => Err(at.error(format!("{sign:?}, not {found:?}"))),
            (Kind::Word(word), at) => Err(at.error(format!("{sign:?}, not {word:?}"))),
        }
    }

    fn word(&mut self, what: &str) -> Result<Named, Error> {
        match self.required(what)? {
            (Kind::Word(word), source) => Ok((word, source)),
            (Kind::Sign(sign), source) => Err(source.error(format!("{what}, not {sign:?}"))),
        }
    }

    /// Reads a word; returns `None` at the end of the block.
    fn word_or_end(&mut self, what: &str) -> Result<Option<Named>, Error> {
        if self.tokens.get(self.at).is_some_and(|(kind, _)| *kind == Kind::Sign('}')) {
            self.at += 1;
            return Ok(None);
        }
        self.word(what).map(Some)
    }

    /// Reads `= value ;`, where the value may be several words.
    fn value(&mut self) -> Result<Named, Error> {
        self.sign('=')?;
        let (mut value, source) = self.word("a value")?;
        while let Some((Kind::Word(more), _)) = self.tokens.get(self.at) {
            value = format!("{value} {more}");
            self.at += 1;
        }
        self.sign(';')?;
        Ok((value, source))
    }

    fn mounts(&mut self, plan: &mut CgroupPlan) -> Result<(), Error> {
        self.sign('{')?;
        while let Some((controller, source)) = self.word_or_end("a controller")? {
            let (path, _) = self.value()?;
            plan.mounts.push(Setting { key: controller, value: path, source });
        }
        Ok(())
    }

    fn group(&mut self, source: &Source, default: &Ownership) -> Result<GroupPlan, Error> {
        let (name, _) = self.word("the name of a group")?;
        let mut group = Group::at(&name).map_err(|reason| source.error(reason))?;
        if group.path.is_empty() {
            return Err(source.error("the root of a hierarchy cannot be in a cgroup plan"));
        }
        let mut ownership = default.clone();
        let mut settings = Vec::new();
        self.places.clear();
        self.sign('{')?;
        while let Some((section, source)) = self.word_or_end("perm or a controller")? {
            if section == "perm" {
                ownership = self.permissions(default.clone())?;
                continue;
            }
            if section.contains('.') {
                let reason = format!("{section:?} is outside of a controller's section");
                return Err(source.error(reason));
            }
            if !group.controllers.contains(&section) {
                group.controllers.push(section.clone());
                self.places.push((section.clone(), source));
            }
            self.sign('{')?;
            while let Some((key, source)) = self.word_or_end("a key")? {
                let (value, _) = self.value()?;
                settings.push(Setting { key: qualified(&section, key), value, source });
            }
        }
        let places = std::mem::take(&mut self.places);
        let (source, pin, parent) = (source.clone(), None, None);
        Ok(GroupPlan { group, source, ownership, settings, pin, parent, places })
    }

    fn default(&mut self) -> Result<Ownership, Error> {
        self.sign('{')?;
        let mut ownership = Ownership::default();
        while let Some((section, at)) = self.word_or_end("perm")? {
            if section != "perm" {
                return Err(at.unknown("section of default", &section, &["perm"], ""));
            }
            ownership = self.permissions(ownership)?;
        }
        Ok(ownership)
    }

    /// Reads the content of `perm`; its values override those of `ownership`.
    fn permissions(&mut self, mut ownership: Ownership) -> Result<Ownership, Error> {
        self.sign('{')?;
        while let Some((whose, source)) = self.word_or_end("task or admin")? {
            let is_task = match whose.as_str() {
                "task" => true,
                "admin" => false,
                other => return Err(source.unknown("part of perm", other, &["task", "admin"], "")),
            };
            self.sign('{')?;
            let mut owner = Owner::default();
            while let Some((key, source)) = self.word_or_end("uid, gid or a mode")? {
                let (value, at) = self.value()?;
                let mode = || account::mode(&value).map_err(|reason| at.error(reason));
                match (key.as_str(), is_task) {
                    ("uid", _) => owner.user = Some(value.clone()),
                    ("gid", _) => owner.group = Some(value.clone()),
                    ("fperm", true) => ownership.task_mode = Some(mode()?),
                    ("fperm", false) => ownership.file_mode = Some(mode()?),
                    ("dperm", false) => ownership.directory_mode = Some(mode()?),
                    (other, _) => {
                        let known = ["uid", "gid", "fperm", "dperm"];
                        return Err(source.unknown("key of perm", other, &known, ""));
                    }
                }
            }
            if owner != Owner::default() {
                self.places.push((whose.clone(), source.clone()));
                *ownership.owner(&whose) = Some(owner);
            }
        }
        Ok(ownership)
    }
}

/// Adds the controller's name to a key without it. Keys in a controller's section may omit the controller's name.
fn qualified(controller: &str, key: String) -> String {
    let has_prefix = key.contains('.') || matches!(key.as_str(), "notify_on_release" | "tasks");
    if has_prefix { key } else { format!("{controller}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CgroupPlan, String> {
        parse(text, Path::new("x.conf")).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_a_group_has() {
        let plan = read(
            "# comment\ndefault { perm { admin { uid = root; gid = adm; } } }\n\
             mount { cpu = /cgroup/cpu; \"name=systemd\" = /x; }\n\
             group a/b { # here too\n\
               perm { task { uid = u; gid = g; fperm = 640; } admin { uid = 7; dperm = 755; fperm = 744; } }\n\
               cpu { cpu.shares = \"512\"; cfs_quota_us = -1; }\n\
               blkio { blkio.throttle.read_bps_device = 8:0 1048576; }\n\
             }\n\
             group c { memory { } }\n\
             template users/%u { cpu { cpu.shares = 2; } }\n",
        )
        .unwrap();
        let group = &plan.groups[0];
        assert_eq!(group.group.to_string(), "cpu,blkio:a/b");
        assert_eq!(group.source.to_string(), "x.conf:4");
        let ownership = &group.ownership;
        assert_eq!(ownership.task.as_ref().unwrap().user.as_deref(), Some("u"));
        assert_eq!(ownership.admin.as_ref().unwrap().user.as_deref(), Some("7"));
        let modes = (ownership.task_mode, ownership.directory_mode, ownership.file_mode);
        assert_eq!(modes, (Some(0o640), Some(0o755), Some(0o744)));
        let settings: Vec<_> = group.settings.iter().map(|s| (&*s.key, &*s.value)).collect();
        assert_eq!(
            settings,
            [
                ("cpu.shares", "512"),
                ("cpu.cfs_quota_us", "-1"),
                ("blkio.throttle.read_bps_device", "8:0 1048576")
            ]
        );
        assert_eq!(group.settings[2].source.line, 7);
        assert_eq!(plan.groups[1].ownership.admin.as_ref().unwrap().group.as_deref(), Some("adm"));
        assert_eq!((plan.templates.len(), plan.mounts.len()), (1, 2));
        assert_eq!(plan.mounts[1].key, "name=systemd");
    }

    #[test]
    fn mistakes_have_lines() {
        for (text, says) in [
            ("group a {\n cpu {\n cpu.shares = 5\n }\n}", "x.conf:4: ';', not '}'"),
            ("group a {\n", "x.conf:1: the file ends"),
            ("group a { perm { tusk { } } }", "did you mean task?"),
            ("gruop a { }", "did you mean group?"),
            (
                "group a {\n perm { admin {\n fprem = 1; } } }",
                "x.conf:3: there is no key of perm \"fprem\"; did you mean fperm?",
            ),
            ("group a { perm { task { fperm = 9; } } }", "not a mode"),
            ("group ../a { }", "not allowed"),
            ("\ngroup . { }", "x.conf:2: the root of a hierarchy cannot be"),
            ("group a { cpu { cpu.shares = \"5; } }", "quote"),
            ("namespace { cpu = x; }", "ns subsystem"),
            ("group a { cpu.shares = 5; }", "outside of a controller"),
            ("{", "a section"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn told_from_toml() {
        assert!(looks_like("# x\n\nmount {\n"));
        assert!(looks_like("group a {"));
        assert!(!looks_like("[group.a]\n") && !looks_like("group = 3") && !looks_like(""));
    }
}
