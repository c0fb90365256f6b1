//! Exit codes, variables and files of a command, from the tables in docs/. They are listed nowhere else.

use super::markup::markdown;
use super::page::Item;

/// The page with the tables of exit codes.
const EXIT_CODES: &str = include_str!("../../../../docs/exit-codes.md");
/// The page with the tables of variables.
const ENVIRONMENT: &str = include_str!("../../../../docs/environment.md");
/// The page with the tables of files.
const FILES: &str = include_str!("../../../../docs/files.md");

/// A row of a table, and the heading of its section.
struct Row {
    heading: &'static str,
    cells: Vec<&'static str>,
}

/// The subject of a page.
pub enum Subject<'a> {
    /// The program as a whole.
    Program,
    /// A command of the runtime, by its words.
    Command(&'a str),
    /// A command that is a separate program.
    Tool(&'a str),
}

/// Returns the exit codes with their meanings.
pub fn exit_status(subject: &Subject<'_>) -> Vec<Item> {
    let heading = match subject {
        Subject::Tool(_) => "Commands that are programs of their own",
        _ => "dayfly",
    };
    let rows = rows(EXIT_CODES).into_iter().filter(|row| row.heading == heading);
    let (common, own): (Vec<Row>, Vec<Row>) =
        rows.filter(|row| row.cells.len() == 3).partition(|row| row.cells[0] == "all");
    let is_own = |row: &&Row| match subject {
        // Commands that run a program return its status.
        Subject::Program => ["run", "exec"].contains(&command(row.cells[0])),
        Subject::Command(words) | Subject::Tool(words) => command(row.cells[0]) == *words,
    };
    let own: Vec<&Row> = own.iter().filter(is_own).collect();
    let is_program = matches!(subject, Subject::Program);
    let is_replaced = |row: &&Row| {
        !is_program
            && own
                .iter()
                .any(|own| own.cells[1] == row.cells[1] && condition(own.cells[0]).is_empty())
    };
    let common = common.iter().filter(|row| !is_replaced(row));
    let item = |row: &Row, about: String| {
        let text = format!("{about}{}", row.cells[2]);
        Item::new(markdown(&format!("`{}`", row.cells[1])), markdown(&full(&text)))
    };
    let own = own.iter().map(|row| match is_program {
        true => (*row, format!("{}: ", row.cells[0])),
        false => (*row, condition(row.cells[0])),
    });
    let mut found: Vec<(&Row, String)> =
        common.map(|row| (row, String::new())).chain(own).collect();
    found.sort_by_key(|(row, _)| {
        let code = row.cells[1];
        let (first, range) = code.split_once(' ').unwrap_or((code, ""));
        (!range.is_empty(), first.parse::<u8>().unwrap_or(u8::MAX))
    });
    found.into_iter().map(|(row, about)| item(row, about)).collect()
}

/// Returns the variables: all that the runtime reads, or those whose row names the command.
pub fn environment(subject: &Subject<'_>) -> Vec<Item> {
    let is_about = |row: &Row| match subject {
        Subject::Program => row.heading == "The runtime",
        Subject::Command(words) | Subject::Tool(words) => {
            let of_pull = row.heading == "Registries" && *words == "image pull";
            let is_named = ["The runtime", "Tools"].contains(&row.heading)
                && literals(by_runtime(row.cells[1]))
                    .any(|name| name == *words || words.split(' ').next() == Some(name));
            of_pull || is_named
        }
    };
    let item = |row: &Row| match row.cells[..] {
        [name, file] => Item::new(
            markdown(name),
            markdown(&full(&format!("Where passwords are looked for: {file}"))),
        ),
        _ => entry(row, row.cells.len() - 1),
    };
    rows(ENVIRONMENT).iter().filter(|row| is_about(row)).map(item).collect()
}

/// Returns the files: for the program, those of general use; for a command, those whose row names the command.
pub fn files(subject: &Subject<'_>) -> Vec<Item> {
    let general = ["State of containers", "Images", "Read"];
    let is_about = |row: &Row| match subject {
        Subject::Program => general.contains(&row.heading) && is_absolute(row.cells[0]),
        Subject::Command(words) | Subject::Tool(words) => {
            let is_image =
                row.heading == "Images" && *words == "image" && is_absolute(row.cells[0]);
            let names = |cell: &'static str| {
                literals(cell).any(|name| name.strip_prefix("dayfly ").unwrap_or(name) == *words)
            };
            is_image || (row.heading != "Installed" && row.cells.iter().any(|cell| names(cell)))
        }
    };
    let item = |row: &Row| match command(row.cells[0]) {
        // In this table, the command is in the first column and the file in the second.
        words
            if is_about(row)
                && words.starts_with(char::is_alphabetic)
                && row.heading == "Configuration of the host" =>
        {
            Item::new(markdown(row.cells[1]), Vec::new())
        }
        _ if row.heading == "Read" => {
            Item::new(markdown(row.cells[0]), markdown(&full(&format!("Read by {}", row.cells[1]))))
        }
        _ => entry(row, 1),
    };
    rows(FILES).iter().filter(|row| is_about(row)).map(item).collect()
}

fn entry(row: &Row, text: usize) -> Item {
    Item::new(markdown(row.cells[0]), markdown(&full(row.cells[text])))
}

/// Returns a cell as a sentence.
fn full(text: &str) -> String {
    let mut text = text.trim().to_owned();
    if text.starts_with(|letter: char| letter.is_ascii_lowercase()) && !text.starts_with("dayfly") {
        text[..1].make_ascii_uppercase();
    }
    // A link at the end is removed with its colon.
    match text.ends_with(['.', ':']) {
        true => text,
        false => text + ".",
    }
}

fn is_absolute(cell: &str) -> bool {
    literals(cell).any(|path| path.starts_with(['/', '~', '$']) || path.contains("auth.json"))
}

/// Returns the readers of a variable, except the shim: the shim's commands have the same names as the runtime's.
fn by_runtime(cell: &str) -> &str {
    cell.split(", the shim").next().unwrap_or(cell)
}

/// Returns the texts in backquotes.
fn literals(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the words of the command at the beginning of a cell, without options and arguments.
fn command(cell: &str) -> &str {
    let literal = literals(cell).next().unwrap_or("");
    let end = literal
        .split_inclusive(' ')
        .take_while(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()))
        .map(str::len)
        .sum();
    literal[..end].trim_end()
}

/// Returns the condition that follows the command in a cell: ``With `--force`: ``.
fn condition(cell: &str) -> String {
    let literal = literals(cell).next().unwrap_or("");
    let options = literal[command(cell).len()..].trim();
    let rest = cell.splitn(3, '`').nth(2).unwrap_or("").trim();
    match (options, rest) {
        ("", "") => String::new(),
        ("", rest) => format!("{rest}: "),
        (options, _) => format!("with `{options}`: "),
    }
}

fn rows(page: &'static str) -> Vec<Row> {
    let mut heading = "";
    let mut found = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("## ") {
            heading = text.trim();
        }
        let is_head = lines.peek().is_some_and(|next| next.starts_with("|-"));
        if line.starts_with("| ") && !is_head {
            let cells = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
            found.push(Row { heading, cells });
        }
    }
    found
}

/// Returns the rows of the shim's table of exit codes.
pub fn shim_exit_status() -> Vec<Item> {
    let rows =
        rows(EXIT_CODES).into_iter().filter(|row| row.heading == "containerd-shim-dayfly-v2");
    rows.map(|row| {
        Item::new(markdown(&format!("`{}`", row.cells[0])), markdown(&full(row.cells[1])))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::man::roff::{bold, italic, roman};

    fn tags(items: &[Item]) -> Vec<String> {
        let text = |item: &Item| {
            super::super::roff::line(&item.tag).replace("\\fB", "").replace("\\fR\n", "")
        };
        items.iter().map(text).collect()
    }

    #[test]
    fn exit_codes_of_a_command_are_its_own_and_those_of_all() {
        assert_eq!(
            tags(&exit_status(&Subject::Command("run"))),
            ["0", "1", "2", "255", "0 to 255", "126, 127"]
        );
        assert_eq!(tags(&exit_status(&Subject::Command("state"))), ["0", "1", "2"]);
        assert_eq!(tags(&exit_status(&Subject::Tool("host check"))), ["0", "1", "2", "141"]);
        assert_eq!(tags(&shim_exit_status()), ["0", "1", "2"]);
        assert_eq!(exit_status(&Subject::Program).len(), 9);
    }

    #[test]
    fn a_condition_comes_before_the_meaning() {
        let items = exit_status(&Subject::Command("plan"));
        assert_eq!(tags(&items), ["0", "1", "1", "2"]);
        assert_eq!(
            items[2].text,
            [roman("With "), bold("--check"), roman(": the plan breaks a rule.")]
        );
    }

    #[test]
    fn variables_are_those_that_the_table_says_a_command_reads() {
        let program = environment(&Subject::Program);
        assert!(program.iter().any(|item| item.tag == [bold("XDG_RUNTIME_DIR")]));
        assert_eq!(environment(&Subject::Command("start")).len(), 2);
        assert!(
            environment(&Subject::Tool("image pull"))
                .iter()
                .any(|item| item.tag == [bold("DOCKER_CONFIG")])
        );
        assert_eq!(environment(&Subject::Tool("host check")).len(), 1);
        assert!(environment(&Subject::Command("state")).is_empty());
    }

    #[test]
    fn files_are_those_that_the_table_says_a_command_has() {
        let program = files(&Subject::Program);
        assert!(program.iter().any(|item| item.tag == [italic("/run/dayfly/ID")]));
        assert_eq!(files(&Subject::Tool("cgroup persist")).len(), 1);
        assert!(files(&Subject::Command("state")).is_empty());
    }
}
