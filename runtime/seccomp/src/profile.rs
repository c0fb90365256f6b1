//! The seccomp profile in config.json (runtime-spec, config-linux.md, "Seccomp").

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use crate::arch::FOREIGN;
use crate::names::Call;
use crate::{Arch, Error};

/// A profile that was parsed, but not compiled yet.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile<'a> {
    /// The action for calls to which no rule applies.
    #[serde(borrow)]
    pub default_action: Cow<'a, str>,
    /// The errno, if the default action is `ERRNO` or `TRACE`.
    #[serde(default)]
    pub default_errno_ret: Option<u32>,
    #[serde(default, borrow)]
    architectures: Option<Vec<Cow<'a, str>>>,
    #[serde(default, borrow)]
    flags: Option<Vec<Cow<'a, str>>>,
    #[serde(default, borrow)]
    listener_path: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    listener_metadata: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    syscalls: Option<Vec<Rule<'a>>>,
}

/// A rule: an action for certain calls.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule<'a> {
    /// The rule's system calls.
    #[serde(rename = "names")]
    pub(crate) calls: Calls,
    /// The action.
    #[serde(borrow)]
    pub action: Cow<'a, str>,
    /// The errno, if the action is `ERRNO` or `TRACE`.
    #[serde(default)]
    pub errno_ret: Option<u32>,
    #[serde(default, borrow)]
    args: Option<Vec<Argument<'a>>>,
}

/// The system calls that a rule names. The names are looked up while they are parsed, so that none is stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    /// The calls that at least one architecture has. A call of another name gets the default action, as with runc:
    /// either the kernel is newer than the table of names, or the profile is wrong.
    pub known: Vec<Call>,
    /// Whether there is any name, known or not.
    pub is_any: bool,
}

impl<'de> Deserialize<'de> for Calls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(CallsVisitor)
    }
}

struct CallsVisitor;

impl<'de> Visitor<'de> for CallsVisitor {
    type Value = Calls;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Calls, A::Error> {
        let mut calls = Calls::default();
        while let Some(Named(call)) = names.next_element()? {
            calls.is_any = true;
            calls.known.extend(call);
        }
        Ok(calls)
    }
}

/// The call with a parsed name; `None` if the name is unknown.
struct Named(Option<Call>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NamedVisitor)
    }
}

struct NamedVisitor;

impl Visitor<'_> for NamedVisitor {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Named, E> {
        Ok(Named(Call::named(name)))
    }
}

/// A condition on an argument of a call.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Argument<'a> {
    /// The index of the argument, starting from 0.
    pub index: u32,
    /// The value that is compared with the argument. For a masked comparison, this is the mask.
    #[serde(default)]
    pub value: u64,
    /// For a masked comparison, the value that the masked argument is compared with.
    #[serde(default)]
    pub value_two: u64,
    /// The comparison operator.
    #[serde(borrow)]
    pub op: Cow<'a, str>,
}

impl<'a> Profile<'a> {
    /// Parses the JSON text of `linux.seccomp`.
    ///
    /// # Errors
    /// If the text does not match the specification.
    pub fn parse(json: &'a str) -> Result<Self, Error> {
        serde_json::from_str(json)
            .map_err(|error| Error(format!("linux.seccomp: {error} of the profile")))
    }

    pub(crate) fn rules(&self) -> &[Rule<'a>] {
        self.syscalls.as_deref().unwrap_or_default()
    }

    /// Returns the architectures that the profile covers. The native architecture is always included.
    pub(crate) fn architectures(&self, native: Arch) -> Result<Vec<Arch>, Error> {
        let mut all = alloc::vec![native];
        let names = self.architectures.as_deref().unwrap_or_default();
        for name in names.iter().filter(|name| !FOREIGN.contains(&&***name)) {
            let arch = Arch::from_name(name).ok_or_else(|| {
                Error(format!("architecture {name} is not known; known are {}", known_archs()))
            })?;
            if !all.contains(&arch) {
                all.push(arch);
            }
        }
        Ok(all)
    }

    /// Returns the path of the agent's socket, and the metadata for the agent.
    pub fn listener(&self) -> (&str, &str) {
        let path = self.listener_path.as_deref().unwrap_or_default();
        (path, self.listener_metadata.as_deref().unwrap_or_default())
    }

    /// Returns whether any rule notifies an agent. As in runc, this action is not allowed as default, nor in a rule for
    /// `write`: init reports the listener by write(2), and before that report the agent could not answer a
    /// notification.
    fn notifies(&self) -> Result<bool, Error> {
        let rules = || self.rules().iter().filter(|rule| rule.action == NOTIFY);
        if rules().any(|rule| rule.calls.known.iter().any(|call| call.name() == "write")) {
            return Err(Error(format!("{NOTIFY} cannot be used for the write syscall")));
        }
        if self.default_action == NOTIFY {
            return Err(Error(format!("{NOTIFY} cannot be used as default action")));
        }
        Ok(rules().any(|rule| rule.calls.is_any))
    }

    /// Returns SECCOMP_FILTER_FLAG_* (seccomp(2)). TSYNC is ignored, because the process has only one thread. If the
    /// profile has no list of flags (not just an empty list), SPEC_ALLOW is set, as by runc: this flag disables a
    /// mitigation that is expensive and of little use (Linux itself has disabled it by default since 5.16).
    pub(crate) fn flags(&self) -> Result<u32, Error> {
        let notifies = self.notifies()?;
        let mut bits = if notifies { NEW_LISTENER } else { 0 };
        let Some(flags) = &self.flags else { return Ok(bits | SPEC_ALLOW) };
        for flag in flags {
            match FLAGS.iter().find(|(name, _)| name == flag) {
                Some((_, WAIT_KILLABLE_RECV)) if !notifies => {
                    return Err(Error(format!("seccomp flag {flag} needs a rule with {NOTIFY}")));
                }
                Some((_, bit)) => bits |= bit,
                None => return Err(Error(format!("seccomp flag {flag} is not known to dayfly"))),
            }
        }
        Ok(bits)
    }
}

impl Rule<'_> {
    pub(crate) fn args(&self) -> &[Argument<'_>] {
        self.args.as_deref().unwrap_or_default()
    }
}

const NOTIFY: &str = "SCMP_ACT_NOTIFY";
const SPEC_ALLOW: u32 = 4;
/// The flag with which seccomp(2) returns a listener (Linux 5.0).
const NEW_LISTENER: u32 = sys::seccomp::NEW_LISTENER;
/// The flag that lets only a fatal signal interrupt a call once the agent has received the call's notification (Linux
/// 5.19).
const WAIT_KILLABLE_RECV: u32 = 32;

/// The names of flags, with their values.
pub const FLAGS: [(&str, u32); 4] = [
    ("SECCOMP_FILTER_FLAG_TSYNC", 0),
    ("SECCOMP_FILTER_FLAG_LOG", 2),
    ("SECCOMP_FILTER_FLAG_SPEC_ALLOW", SPEC_ALLOW),
    ("SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", WAIT_KILLABLE_RECV),
];

/// The names of actions, with their SECCOMP_RET_* values (seccomp(2)).
pub const ACTIONS: [(&str, u32); 9] = [
    ("SCMP_ACT_KILL", 0),
    ("SCMP_ACT_KILL_THREAD", 0),
    ("SCMP_ACT_KILL_PROCESS", 0x8000_0000),
    ("SCMP_ACT_TRAP", 0x0003_0000),
    ("SCMP_ACT_ERRNO", 0x0005_0000),
    (NOTIFY, 0x7fc0_0000),
    ("SCMP_ACT_TRACE", 0x7ff0_0000),
    ("SCMP_ACT_LOG", 0x7ffc_0000),
    ("SCMP_ACT_ALLOW", 0x7fff_0000),
];

/// Returns the filter's return value for an action. If the action needs an errno and none is given, uses EPERM.
pub(crate) fn action(name: &str, errno: Option<u32>) -> Result<u32, Error> {
    const EPERM: u32 = 1;
    /// The maximum errno; the kernel replaces larger values by this one.
    const MAX_ERRNO: u32 = 4095;
    let found = ACTIONS.iter().find(|(known, _)| *known == name);
    let (_, value) = found.ok_or_else(|| {
        let names: Vec<&str> = ACTIONS.iter().map(|(name, _)| *name).collect();
        Error(format!("seccomp action {name:?} is not known; known are {}", names.join(", ")))
    })?;
    // The lower 16 bits of the return value are the errno.
    let largest = match name {
        "SCMP_ACT_ERRNO" => MAX_ERRNO,
        "SCMP_ACT_TRACE" => 0xffff,
        _ => 0,
    };
    match errno {
        None if largest > 0 => Ok(value | EPERM),
        None => Ok(*value),
        Some(errno) if errno <= largest && largest > 0 => Ok(value | errno),
        Some(errno) if largest > 0 => {
            Err(Error(format!("errno {errno} of seccomp action {name} is larger than {largest}")))
        }
        Some(errno) => {
            Err(Error(format!("errno {errno} for seccomp action {name}, which takes none")))
        }
    }
}

/// The names of operators.
pub const OPERATORS: [(&str, Operator); 7] = [
    ("SCMP_CMP_NE", Operator::NotEqual),
    ("SCMP_CMP_LT", Operator::Less),
    ("SCMP_CMP_LE", Operator::LessOrEqual),
    ("SCMP_CMP_EQ", Operator::Equal),
    ("SCMP_CMP_GE", Operator::GreaterOrEqual),
    ("SCMP_CMP_GT", Operator::Greater),
    ("SCMP_CMP_MASKED_EQ", Operator::MaskedEqual),
];

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// `argument & value == valueTwo`
    MaskedEqual,
}

impl Argument<'_> {
    pub(crate) fn operator(&self) -> Result<Operator, Error> {
        let found = OPERATORS.iter().find(|(name, _)| *name == self.op);
        match found {
            Some((_, operator)) => Ok(*operator),
            None => Err(Error(format!("seccomp operator {:?} is not known", self.op))),
        }
    }
}

fn known_archs() -> String {
    Arch::ALL.map(Arch::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_architectures_are_left_out() {
        let json = r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_LOONGARCH64","SCMP_ARCH_S390X","SCMP_ARCH_X86"]}"#;
        let profile = Profile::parse(json).unwrap();
        assert_eq!(profile.architectures(Arch::X86_64).unwrap(), [Arch::X86_64, Arch::X86]);
        let mut names =
            FOREIGN.iter().chain(Arch::ALL.map(Arch::name).iter()).copied().collect::<Vec<_>>();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FOREIGN.len() + Arch::ALL.len());
    }

    #[test]
    fn unknown_words_are_named() {
        for (json, word) in [
            (r#"{"defaultAction":"SCMP_ACT_SMILE"}"#, "SCMP_ACT_SMILE"),
            (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "cannot be used as default action"),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
                    {"names":["read","write"],"action":"SCMP_ACT_NOTIFY"}]}"#,
                "cannot be used for the write syscall",
            ),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW",
                    "flags":["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]}"#,
                "needs a rule with SCMP_ACT_NOTIFY",
            ),
            (r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_VAX"]}"#, "VAX"),
            (r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["NO_SUCH"]}"#, "NO_SUCH"),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],
                    "action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":1,"op":"SCMP_CMP_XX"}]}]}"#,
                "SCMP_CMP_XX",
            ),
            (
                r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["read"],
                    "action":"SCMP_ACT_ERRNO","args":[{"index":6,"value":1,"op":"SCMP_CMP_EQ"}]}]}"#,
                "6",
            ),
            (r#"{"defaultAction":7}"#, "linux.seccomp"),
        ] {
            let result = Profile::parse(json)
                .and_then(|profile| crate::compile(&profile, &crate::Support::default()));
            let text = std::string::ToString::to_string(&result.unwrap_err());
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn flags_have_a_default_only_without_a_list() {
        for (flags, bits) in [
            ("", 4),
            (r#","flags":null"#, 4),
            (r#","flags":[]"#, 0),
            (r#","flags":["SECCOMP_FILTER_FLAG_TSYNC"]"#, 0),
            (r#","flags":["SECCOMP_FILTER_FLAG_LOG","SECCOMP_FILTER_FLAG_SPEC_ALLOW"]"#, 6),
        ] {
            let json = std::format!(r#"{{"defaultAction":"SCMP_ACT_ALLOW"{flags}}}"#);
            assert_eq!(Profile::parse(&json).unwrap().flags().unwrap(), bits, "{json}");
        }
    }

    #[test]
    fn a_rule_that_asks_an_agent_makes_a_listener() {
        let parse = |flags: &str| {
            // This must be a call that every architecture has: for an unknown name, there would be no rule, and so no
            // listener.
            let json = std::format!(
                r#"{{"defaultAction":"SCMP_ACT_ALLOW","listenerPath":"/run/agent","listenerMetadata":"m"{flags},
                    "syscalls":[{{"names":["mkdirat"],"action":"SCMP_ACT_NOTIFY"}}]}}"#
            );
            let profile = Profile::parse(&json).unwrap();
            assert_eq!(profile.listener(), ("/run/agent", "m"));
            crate::compile(&profile, &crate::Support::default()).unwrap()
        };
        assert_eq!(parse("").flags, 12);
        let program = parse(r#","flags":["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]"#);
        assert_eq!(program.flags, 40);
        assert!(program.has_listener());
        assert!(program.filter.iter().any(|insn| insn.k == 0x7fc0_0000));
    }

    #[test]
    fn an_errno_is_part_of_the_verdict() {
        assert_eq!(action("SCMP_ACT_ERRNO", None).unwrap(), 0x0005_0001);
        assert_eq!(action("SCMP_ACT_ERRNO", Some(38)).unwrap(), 0x0005_0026);
        assert_eq!(action("SCMP_ACT_TRACE", Some(0xffff)).unwrap(), 0x7ff0_ffff);
        assert_eq!(action("SCMP_ACT_ALLOW", None).unwrap(), 0x7fff_0000);
        for (name, errno) in [
            ("SCMP_ACT_ALLOW", 38),
            ("SCMP_ACT_KILL", 0),
            ("SCMP_ACT_ERRNO", 4096),
            ("SCMP_ACT_TRACE", 0x1_0000),
        ] {
            assert!(action(name, Some(errno)).unwrap_err().to_string().contains(name));
        }
    }
}
