//! The command lines of the tools that execute some of dayfly's commands.

use clap::{Command, CommandFactory};

/// Returns each tool's command line. Each comes with the name of the dayfly command whose subcommands it defines, or
/// with an empty name if its subcommands are themselves dayfly commands.
pub fn all() -> [(&'static str, Command); 4] {
    [
        ("bench", dayfly_bench::options::Options::command()),
        ("", dayfly_image::options::Options::command()),
        ("", dayfly_host::options::Options::command()),
        ("", dayfly_profile::options::Options::command()),
    ]
}

/// Returns the subcommands of a command that a tool executes.
pub fn below(name: &str) -> Vec<Command> {
    let all = all();
    let found = all.iter().find_map(|(whole, tool)| match *whole == name {
        true => Some(tool),
        false => tool.find_subcommand(name),
    });
    let found = found.into_iter().flat_map(Command::get_subcommands);
    found.filter(|command| !command.is_hide_set()).cloned().collect()
}

/// Returns the tool's definition of a command that is in dayfly's own table of commands but is implemented by a tool.
pub fn same(name: &str) -> Option<Command> {
    let (above, below) = match name {
        "trace" => ("bench", "trace"),
        "gc" => ("rootfs", "gc"),
        _ => return None,
    };
    self::below(above).into_iter().find(|command| command.get_name() == below)
}
