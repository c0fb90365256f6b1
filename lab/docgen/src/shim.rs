//! The man page of containerd's shim. Its flags are defined by containerd and are not in the table of dayfly's command
//! line, so the page is handwritten.

use std::fs;
use std::io;
use std::path::Path;

use crate::man::page::{Item, Page, SECTION};
use crate::man::roff::{Span, bold, italic, roman};
use crate::man::{tables, text, text_sentence};

/// The name of the program.
const NAME: &str = "containerd-shim-dayfly-v2";

const DESCRIPTION: &[&str] = &[
    "containerd's shim for dayfly: the process between containerd and the containers of a pod. It creates, starts and \
     deletes containers itself and executes no runtime. Only containerd executes the shim.",
    "start finds the socket of the container's group, and prints its address. If no shim listens on the socket, \
     start creates one. The group is the value of the annotation io.containerd.runc.v2.group, or else of \
     io.kubernetes.cri.sandbox-id, or else the container's id. Parameters are read from standard input.",
    "delete removes the processes, the cgroup, the state, the mounts and the socket of a container whose shim no longer \
     exists. It prints a DeleteResponse, and can be repeated.",
    "The shim of a group serves the task service, versions 2 and 3, over ttrpc. The shim exits when containerd requests it \
     and there are no containers, or after 60 seconds without containers and connections.",
];

/// The flags, each with the name of its value and a description.
const FLAGS: &[(&str, &str, &str)] = &[
    (
        "-address",
        "PATH",
        "path of containerd's socket, on which the name of the shim's socket depends",
    ),
    (
        "-bundle",
        "DIR",
        "the container's bundle, for delete; by default found beside the working directory",
    ),
    ("-debug", "", "log every call"),
    ("-debug-socket", "PATH", "accepted, not used"),
    ("-id", "ID", "the container's id"),
    (
        "-info",
        "",
        "read options from standard input, print a RuntimeInfo with the runtime's features, and exit",
    ),
    ("-namespace", "NAME", "containerd's namespace"),
    ("-publish-binary", "PATH", "accepted, not used: events go to the socket in TTRPC_ADDRESS"),
    ("-socket", "PATH", "accepted, not used: the socket is named after the group"),
    ("-v", "", "the same as -version"),
    ("-version", "", "print the version, and exit"),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("TTRPC_ADDRESS", "containerd's socket for events, if standard input does not name it"),
    (
        "MAX_SHIM_VERSION",
        "3: without bootstrap parameters, start answers in JSON instead of printing only the address",
    ),
    (
        "SCHED_CORE",
        "if it is not empty, the shim and its containers get a core scheduling cookie of their own",
    ),
    ("DAYFLY_WITHOUT", "fast paths to disable, as for dayfly(8)"),
];

const FILES: &[(&str, &str)] = &[
    ("/run/containerd/s/SHA256", "the socket of a group, mode 0600"),
    (
        "/run/containerd/dayfly/NAMESPACE",
        "state of containers, for dayfly --root; the option Root names another directory",
    ),
    ("BUNDLE/log", "the FIFO to which log lines go, which containerd copies to its own log"),
    ("BUNDLE/address", "address of the shim's socket"),
    (
        "BUNDLE/dayfly.json",
        "directory of the container's state, and the exit status of its first process, for delete",
    ),
];

/// Writes `containerd-shim-dayfly-v2.8`.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::write(directory.join(format!("{NAME}.{SECTION}")), page())
}

fn page() -> String {
    let mut page = Page::new(NAME, "containerd's shim, which starts containers itself");
    page.synopsis(&[
        way("-namespace NAME -address PATH -id ID [-debug] start"),
        way("-namespace NAME -address PATH -id ID [-bundle DIR] delete"),
        way("-info"),
        way("-version"),
    ]);
    for paragraph in DESCRIPTION {
        page.paragraph("DESCRIPTION", &text(paragraph));
    }
    let two = "One dash or two, \"-name value\" or \"-name=value\".";
    page.paragraph("OPTIONS", &text(two));
    let flag = |(flag, value, does): &(&str, &str, &str)| {
        let mut tag = vec![bold(*flag)];
        if !value.is_empty() {
            tag.extend([roman(" "), italic(*value)]);
        }
        Item::new(tag, text_sentence(does))
    };
    page.items("OPTIONS", &FLAGS.iter().map(flag).collect::<Vec<_>>());
    page.items("EXIT STATUS", &tables::shim_exit_status());
    let variable = |(name, does): &(&str, &str)| Item::new(vec![bold(*name)], text_sentence(does));
    page.items("ENVIRONMENT", &ENVIRONMENT.iter().map(variable).collect::<Vec<_>>());
    let file = |(path, what): &(&str, &str)| Item::new(vec![italic(*path)], text_sentence(what));
    page.items("FILES", &FILES.iter().map(file).collect::<Vec<_>>());
    page.see_also(&["containerd(8)", "ctr(8)", "dayfly(8)"].map(str::to_owned));
    page.finish()
}

/// Returns a synopsis, in which capital letters mark placeholders.
fn way(words: &str) -> Vec<Span> {
    let mut way = vec![bold(NAME)];
    for word in words.split(' ') {
        let inner = word.trim_matches(['[', ']']);
        let is_value = inner.chars().all(|letter| letter.is_ascii_uppercase());
        let (before, after) = word.split_once(inner).unwrap_or_default();
        way.push(roman(format!(" {before}")));
        way.push(if is_value { italic(inner) } else { bold(inner) });
        way.push(roman(after));
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source of the program's flags.
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
