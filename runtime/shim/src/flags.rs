//! The command line, in the syntax of Go's package flag: a flag begins with one dash or two and has the form `-name
//! value` or `-name=value`. The first argument that is not a flag is the action; no flags follow it.

use alloc::format;
use alloc::string::String;

/// The arguments that containerd passes to the program. A text is empty if its flag is missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flags<'a> {
    /// `-namespace`: containerd's namespace.
    pub namespace: &'a str,
    /// `-id`: the container's id.
    pub id: &'a str,
    /// `-address`: containerd's main socket.
    pub address: &'a str,
    /// `-publish-binary`: the path of containerd's program. Not used, because events are sent over ttrpc.
    pub publish_binary: &'a str,
    /// `-bundle`: the bundle, if it is not the working directory.
    pub bundle: &'a str,
    /// `-socket`: the socket on which old shims listen. Not used, because the socket is named after the group.
    pub socket: &'a str,
    /// `-debug-socket`: the socket of Go's profiler.
    pub debug_socket: &'a str,
    /// `-debug`: log every step.
    pub debug: bool,
    /// `-v`, `-version`: print the version and exit.
    pub version: bool,
    /// `-info`: print a RuntimeInfo and exit.
    pub info: bool,
    /// `start`, `delete`, or empty.
    pub action: &'a str,
}

/// The reason why the arguments are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal<'a> {
    /// `-h`, `-help`: not an error, but the program does nothing else.
    #[error("flag: help requested")]
    Help,
    /// An unknown flag.
    #[error("flag provided but not defined: -{0}")]
    Unknown(&'a str),
    /// The last argument is a flag whose value is missing.
    #[error("flag needs an argument: -{0}")]
    Missing(&'a str),
    /// A boolean flag and its value, which is neither true nor false.
    #[error("invalid boolean value {1:?} for -{0}: parse error")]
    NotBoolean(&'a str, &'a str),
    /// A flag with three dashes, or with an empty name.
    #[error("bad flag syntax: {0}")]
    Syntax(&'a str),
}

/// The usage text, after the line `usage of NAME:`.
const USAGE: &str = "  -address string
    \tgrpc address back to main containerd
  -bundle string
    \tpath to the bundle if not workdir
  -debug
    \tenable debug output in logs
  -debug-socket string
    \taccepted, not used
  -id string
    \tid of the task
  -info
    \tget the option protobuf from stdin, print the shim info protobuf to stdout, and exit
  -namespace string
    \tnamespace that owns the shim
  -publish-binary string
    \taccepted, not used: events go to the address in TTRPC_ADDRESS
  -socket string
    \tsocket path to serve
  -v
  -version
    \tshow the shim version and exit
";

/// The field that stores a flag's value.
enum Slot<'f, 'a> {
    Text(&'f mut &'a str),
    Switch(&'f mut bool),
}

impl<'a> Flags<'a> {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// Returns the first argument that Go's package flag would refuse.
    pub fn parse(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self, Refusal<'a>> {
        let mut flags = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            // A single dash is not a flag, and two dashes alone end the flags.
            let Some(text) = argument.strip_prefix('-').filter(|text| !text.is_empty()) else {
                flags.action = argument;
                break;
            };
            let text = text.strip_prefix('-').unwrap_or(text);
            if text.is_empty() {
                flags.action = arguments.next().unwrap_or_default();
                break;
            }
            if text.starts_with(['-', '=']) {
                return Err(Refusal::Syntax(argument));
            }
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            match (flags.slot(name).ok_or_else(|| unknown(name))?, value) {
                (Slot::Switch(switch), None) => *switch = true,
                (Slot::Switch(switch), Some(value)) => {
                    *switch = boolean(value).ok_or(Refusal::NotBoolean(name, value))?;
                }
                (Slot::Text(slot), Some(value)) => *slot = value,
                (Slot::Text(slot), None) => {
                    *slot = arguments.next().ok_or(Refusal::Missing(name))?;
                }
            }
        }
        Ok(flags)
    }

    fn slot(&mut self, name: &str) -> Option<Slot<'_, 'a>> {
        Some(match name {
            "namespace" => Slot::Text(&mut self.namespace),
            "id" => Slot::Text(&mut self.id),
            "address" => Slot::Text(&mut self.address),
            "publish-binary" => Slot::Text(&mut self.publish_binary),
            "bundle" => Slot::Text(&mut self.bundle),
            "socket" => Slot::Text(&mut self.socket),
            "debug-socket" => Slot::Text(&mut self.debug_socket),
            "debug" => Slot::Switch(&mut self.debug),
            "v" | "version" => Slot::Switch(&mut self.version),
            "info" => Slot::Switch(&mut self.info),
            _ => return None,
        })
    }
}

impl Refusal<'_> {
    /// Returns the message to print on standard error; `program` is the program's name.
    pub fn text(&self, program: &str) -> String {
        match self {
            Self::Help => format!("Usage of {program}:\n{USAGE}"),
            wrong => format!("{wrong}\nUsage of {program}:\n{USAGE}"),
        }
    }

    /// Returns the exit status that Go's package flag would use.
    pub const fn status(&self) -> i32 {
        match self {
            Self::Help => 0,
            _ => 2,
        }
    }
}

fn unknown(name: &str) -> Refusal<'_> {
    match name {
        "h" | "help" => Refusal::Help,
        name => Refusal::Unknown(name),
    }
}

/// Parses like Go's strconv.ParseBool.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_containerd_calls_it() {
        let line = "-namespace k8s.io -address /run/containerd/containerd.sock -publish-binary \
                    /usr/bin/containerd -id abc -bundle /b -debug start";
        let flags = Flags::parse(line.split_whitespace()).unwrap();
        assert_eq!(
            flags,
            Flags {
                namespace: "k8s.io",
                id: "abc",
                address: "/run/containerd/containerd.sock",
                publish_binary: "/usr/bin/containerd",
                bundle: "/b",
                debug: true,
                action: "start",
                ..Flags::default()
            }
        );
    }

    #[test]
    fn every_form_of_a_flag() {
        let parse = |line: &'static str| Flags::parse(line.split_whitespace());
        for line in ["-id x", "--id x", "-id=x", "--id=x", "-id y -id=x", "-id x -- start x"] {
            assert_eq!(parse(line).unwrap().id, "x", "{line}");
        }
        assert_eq!(parse("-id= start").unwrap(), Flags { action: "start", ..Flags::default() });
        // A flag with a text value uses the next argument, even if that argument looks like a flag.
        assert_eq!(parse("-id -debug").unwrap().id, "-debug");
        assert_eq!(parse("- -debug").unwrap(), Flags { action: "-", ..Flags::default() });
        assert_eq!(parse("start -debug").unwrap(), Flags { action: "start", ..Flags::default() });
        assert_eq!(parse("-- -debug").unwrap(), Flags { action: "-debug", ..Flags::default() });
        assert!(!parse("-debug -debug=F").unwrap().debug);
        assert!(parse("--version").unwrap().version && parse("-v=1").unwrap().version);
    }

    #[test]
    fn what_is_refused() {
        let parse = |line: &'static str| Flags::parse(line.split_whitespace()).unwrap_err();
        assert_eq!(parse("-x"), Refusal::Unknown("x"));
        assert_eq!(parse("-x=1"), Refusal::Unknown("x"));
        assert_eq!(parse("-id"), Refusal::Missing("id"));
        assert_eq!(parse("-debug=maybe"), Refusal::NotBoolean("debug", "maybe"));
        assert_eq!(parse("---id"), Refusal::Syntax("---id"));
        assert_eq!(parse("-="), Refusal::Syntax("-="));
        assert_eq!((parse("-h").status(), parse("-x").status()), (0, 2));
        let text = parse("-x").text("shim");
        assert!(text.starts_with("flag provided but not defined: -x\nUsage of shim:\n  -address"));
    }
}
