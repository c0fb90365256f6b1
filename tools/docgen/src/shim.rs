//! The man page of containerd's shim. containerd defines its flags, so the page is literal text.

use std::fs;
use std::io;
use std::path::Path;

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use dayfly_cli::format::version::VERSION;

/// The program's name.
const NAME: &str = "containerd-shim-dayfly-v2";
/// The manual section: system administration.
const SECTION: &str = "8";

const DESCRIPTION: &[&str] = &[
    "containerd's shim for dayfly: the process between containerd and the containers of a pod. It creates, starts and \
     deletes containers itself and executes no runtime. containerd runs it; nobody else needs to.",
    "start finds the socket of the container's group, and prints its address. If no shim listens there, it leaves one \
     behind. The group is the value of the annotation io.containerd.runc.v2.group, or else of \
     io.kubernetes.cri.sandbox-id, or else the container itself. Parameters are read from standard input.",
    "delete removes what a container has left whose shim is gone: processes, cgroup, state, mounts, socket. It prints a \
     DeleteResponse. It can be repeated.",
    "The shim of a group serves the task service, versions 2 and 3, over ttrpc. It ends when containerd asks it to and \
     there are no containers, or after 60 seconds without containers and connections.",
];

/// The flags, each with the name of its value and its effect.
const FLAGS: &[(&str, &str, &str)] = &[
    ("-address", "PATH", "containerd's socket; a part of what the shim's socket is named after"),
    (
        "-bundle",
        "DIR",
        "the container's bundle, for delete; by default found beside the working directory",
    ),
    ("-debug", "", "log every call"),
    ("-debug-socket", "PATH", "accepted, not used"),
    ("-id", "ID", "the container"),
    (
        "-info",
        "",
        "read options from standard input, print a RuntimeInfo with the runtime's features, and end",
    ),
    ("-namespace", "NAME", "containerd's namespace"),
    ("-publish-binary", "PATH", "accepted, not used: events go to the socket in TTRPC_ADDRESS"),
    ("-socket", "PATH", "accepted, not used: the socket is named after the group"),
    ("-v", "", "as -version"),
    ("-version", "", "print the version, and end"),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("TTRPC_ADDRESS", "containerd's socket for events, where standard input does not name it"),
    (
        "MAX_SHIM_VERSION",
        "3 has start answer in JSON where the caller has sent no bootstrap parameters; else it prints the bare address",
    ),
    (
        "SCHED_CORE",
        "not empty: the shim and its containers get a core scheduling cookie of their own",
    ),
    ("DAYFLY_WITHOUT", "fast paths to do without, as for dayfly(8)"),
];

const FILES: &[(&str, &str)] = &[
    ("/run/containerd/s/SHA256", "the socket of a group, mode 0600"),
    (
        "/run/containerd/dayfly/NAMESPACE",
        "state of containers; dayfly --root takes it. Another directory by the option Root",
    ),
    ("BUNDLE/log", "the FIFO to which log lines go, which containerd copies to its own log"),
    ("BUNDLE/address", "where the shim listens"),
    (
        "BUNDLE/dayfly.json",
        "where the container's state is, and how its first process has ended, for delete",
    ),
];

/// Writes `containerd-shim-dayfly-v2.8`.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::write(directory.join(format!("{NAME}.{SECTION}")), page().to_roff())
}

fn page() -> Roff {
    let mut page = Roff::new();
    page.control("TH", [NAME, SECTION, "", &format!("dayfly {VERSION}"), ""]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{NAME} - containerd's shim, which starts containers itself"))]);
    page.control("SH", ["SYNOPSIS"]);
    for (at, (flags, action)) in [
        ("-namespace NAME -address PATH -id ID [-debug] ", "start"),
        ("-namespace NAME -address PATH -id ID [-bundle DIR] ", "delete"),
        ("", "-info"),
        ("", "-version"),
    ]
    .into_iter()
    .enumerate()
    {
        if at > 0 {
            page.control("br", []);
        }
        page.text([bold(NAME), roman(format!(" {flags}")), bold(action)]);
    }
    page.control("SH", ["DESCRIPTION"]);
    for (at, paragraph) in DESCRIPTION.iter().enumerate() {
        if at > 0 {
            page.control("PP", []);
        }
        page.text([roman(*paragraph)]);
    }
    page.control("SH", ["OPTIONS"]);
    page.text([roman("One dash or two, -name value or -name=value.")]);
    for (flag, value, text) in FLAGS {
        let mut head = vec![bold(*flag)];
        if !value.is_empty() {
            head.extend([roman(" "), italic(*value)]);
        }
        item(&mut page, head, text);
    }
    page.control("SH", ["ENVIRONMENT"]);
    ENVIRONMENT.iter().for_each(|(name, text)| item(&mut page, vec![bold(*name)], text));
    page.control("SH", ["FILES"]);
    FILES.iter().for_each(|(path, text)| item(&mut page, vec![italic(*path)], text));
    page.control("SH", ["EXIT STATUS"]);
    page.text([roman(
        "0 if the action was done, 1 if not, with the reason on standard error, and 2 for flags that there are not.",
    )]);
    page.control("SH", ["SEE ALSO"]);
    page.text([roman("dayfly(8), containerd(8), ctr(8); docs/shim.md of the source")]);
    page
}

fn item(page: &mut Roff, head: Vec<Inline>, text: &str) {
    page.control("TP", []);
    page.text(head);
    page.text([roman(text)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source of the program's usage text.
    const SOURCE: &str = include_str!("../../../runtime/shim/src/flags.rs");

    #[test]
    fn all_flags_are_there() {
        let usage = SOURCE.split("const USAGE").nth(1).unwrap().split("\";").next().unwrap();
        let flag = |line: &str| {
            let word = line.trim_start_matches(['"', ' ', ':', '&', 's', 't', 'r', '=']);
            let word = word.split_whitespace().next()?;
            word.starts_with('-').then(|| word.to_owned())
        };
        let mut wanted: Vec<String> = usage.lines().filter_map(flag).collect();
        let mut found: Vec<String> = FLAGS.iter().map(|(flag, ..)| (*flag).to_owned()).collect();
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted);
    }
}
