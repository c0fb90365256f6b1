//! `--version` of the tools.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::{Case, runtime_path};

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[case!(of_programs).needs(tools), case!(of_commands).needs(tools)];

/// The tools, and the commands of dayfly that each of them executes.
const TOOLS: [(&str, &[&str]); 4] = [
    ("dayfly-bench", &["bench", "trace"]),
    ("dayfly-host", &["host", "cgroup"]),
    ("dayfly-image", &["image", "rootfs", "gc"]),
    ("dayfly-profile", &["profile"]),
];

fn tools() -> Result<(), String> {
    let lacks = |(tool, _): &&(&str, _)| !runtime_path().with_file_name(tool).exists();
    match TOOLS.iter().find(lacks) {
        Some((tool, _)) => Err(format!("no {tool} beside the runtime")),
        None => Ok(()),
    }
}

/// The first line of `dayfly --version`, with the name of a tool.
fn version_of(bed: &Bed, tool: &str) -> String {
    let own = bed.call_bare(&["--version"]).run().ok().stdout;
    let version = own.lines().next().and_then(|line| line.strip_prefix("dayfly version "));
    format!("{tool} version {}\n", version.expect("version"))
}

fn of_programs(bed: &Bed) {
    for (tool, _) in TOOLS {
        let program = bed.runtime().with_file_name(tool);
        let outcome = bed.program(program.to_str().expect("path"), &["--version"]).run().ok();
        assert_eq!(outcome.stdout, version_of(bed, tool));
    }
}

fn of_commands(bed: &Bed) {
    for (tool, commands) in TOOLS {
        for command in commands {
            let outcome = bed.call_bare(&[command, &"--version"]).run().ok();
            assert_eq!(outcome.stdout, version_of(bed, tool), "{command}");
        }
    }
}
