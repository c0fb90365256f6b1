//! Exit codes, variables and files of a command, from the tables in docs/. They are listed nowhere else.

use dayfly_cli::definition::{Order, find};

/// The page with the tables of exit codes.
const EXIT_CODES: &str = include_str!("../../../docs/exit-codes.md");
/// The page with the tables of variables.
const ENVIRONMENT: &str = include_str!("../../../docs/environment.md");
/// The page with the tables of files.
const FILES: &str = include_str!("../../../docs/files.md");

/// An entry of a list in a page: a tag, and a sentence about it. Both are Markdown.
pub type Item = (String, String);

/// A row of a table, and the heading of its section.
struct Row {
    heading: &'static str,
    cells: Vec<&'static str>,
}

/// Returns the exit codes of the command `words` with their meanings; without words, those of the program.
pub fn exit_status(words: &str) -> Vec<Item> {
    let is_tool = find(words).map_or(!words.is_empty(), |found| found.order == Order::PassedOn);
    let heading = if is_tool { "Commands that are programs of their own" } else { "dayfly" };
    let rows = rows(EXIT_CODES).filter(|row| row.heading == heading && row.cells.len() == 3);
    let (common, own): (Vec<Row>, Vec<Row>) = rows.partition(|row| row.cells[0] == "all");
    let is_own = |row: &Row| match words {
        // Commands that run a program return its status.
        "" => ["run", "exec"].contains(&command(row.cells[0])),
        words => command(row.cells[0]) == words,
    };
    let own: Vec<Row> = own.into_iter().filter(is_own).collect();
    let whole = format!("`{words}`");
    let is_replaced = |common: &Row| {
        own.iter().any(|own| own.cells[0] == whole && own.cells[1] == common.cells[1])
    };
    let common = common.iter().filter(|row| !is_replaced(row));
    let item = |row: &Row| match row.cells[..] {
        [condition, code, meaning] if condition != "all" && condition != whole => {
            (code.to_owned(), sentence(&format!("{condition}: {meaning}")))
        }
        _ => (row.cells[1].to_owned(), sentence(row.cells[2])),
    };
    common.chain(&own).map(item).collect()
}

/// Returns the exit codes of the shim.
pub fn shim_exit_status() -> Vec<Item> {
    let rows = rows(EXIT_CODES).filter(|row| row.heading == "containerd-shim-dayfly-v2");
    rows.map(|row| entry(&row, 1)).collect()
}

/// Returns the variables that the command `words` reads according to their rows; without words, those of the runtime.
pub fn environment(words: &str) -> Vec<Item> {
    let is_about = |row: &Row| match (row.heading, words) {
        ("The runtime", "") | ("Registries", "image pull") => true,
        // The shim's commands have the same names as the runtime's.
        ("The runtime" | "Tools", words) => {
            literals(row.cells[1].split(", the shim").next().unwrap_or_default())
                .any(|name| name == words || words.split(' ').next() == Some(name))
        }
        _ => false,
    };
    let item = |row: Row| match row.cells[..] {
        [name, file] => (name.to_owned(), format!("Where passwords are looked for: {file}.")),
        _ => entry(&row, row.cells.len() - 1),
    };
    rows(ENVIRONMENT).filter(is_about).map(item).collect()
}

/// Returns the files whose rows name the command `words`; without words, those of general use.
pub fn files(words: &str) -> Vec<Item> {
    let is_absolute = |row: &Row| {
        let mut paths = literals(row.cells[0]);
        paths.any(|path| path.starts_with(['/', '~', '$']) || path.contains("auth.json"))
    };
    let is_named = |cell: &&str| {
        literals(cell).any(|name| name.strip_prefix("dayfly ").unwrap_or(name) == words)
    };
    let is_about = |row: &Row| match (row.heading, words) {
        ("State of containers" | "Images" | "Read", "") => is_absolute(row),
        ("Images", "image") if is_absolute(row) => true,
        ("Installed", _) | (_, "") => false,
        _ => row.cells.iter().any(&is_named),
    };
    let item = |row: Row| match row.heading {
        // In this table, the command is in the first column and the file in the second.
        "Configuration of the host" => (row.cells[1].to_owned(), String::new()),
        "Read" => (row.cells[0].to_owned(), sentence(&format!("read by {}", row.cells[1]))),
        _ => entry(&row, 1),
    };
    rows(FILES).filter(is_about).map(item).collect()
}

fn entry(row: &Row, text: usize) -> Item {
    (row.cells[0].to_owned(), sentence(row.cells[text]))
}

/// Returns a cell as a sentence.
fn sentence(text: &str) -> String {
    let mut text = text.to_owned();
    if text.starts_with(|letter: char| letter.is_ascii_lowercase()) && !text.starts_with("dayfly") {
        text[..1].make_ascii_uppercase();
    }
    if text.ends_with('.') { text } else { text + "." }
}

/// Returns the texts in backquotes.
fn literals(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the words of the command at the beginning of a cell, without options and arguments.
fn command(cell: &str) -> &str {
    let literal = literals(cell).next().unwrap_or("");
    let is_word = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_lowercase());
    let end = literal.split_inclusive(' ').take_while(is_word).map(str::len).sum();
    literal[..end].trim_end()
}

/// Returns the rows of all tables of a page, without their titles.
fn rows(page: &'static str) -> impl Iterator<Item = Row> {
    let mut heading = "";
    page.lines().zip(page.lines().skip(1).chain([""])).filter_map(move |(line, next)| {
        heading = line.strip_prefix("## ").map_or(heading, str::trim);
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(str::trim);
        (!next.starts_with("|-")).then(|| Row { heading, cells: cells.collect() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(items: &[Item]) -> Vec<&str> {
        items.iter().map(|(tag, _)| tag.as_str()).collect()
    }

    #[test]
    fn exit_codes_of_a_command_are_those_of_all_and_its_own() {
        assert_eq!(tags(&exit_status("run")), ["0", "2", "0 to 255", "1", "255", "126, 127"]);
        assert_eq!(tags(&exit_status("state")), ["0", "1", "2"]);
        assert_eq!(tags(&exit_status("host check")), ["141", "0", "1", "2"]);
        assert_eq!(tags(&shim_exit_status()), ["0", "1", "2"]);
        assert_eq!(exit_status("").len(), 9);
        let plan = exit_status("plan");
        assert_eq!(plan[3], ("1".to_owned(), "`plan --check`: the plan breaks a rule.".to_owned()));
    }

    #[test]
    fn variables_are_those_that_the_table_says_a_command_reads() {
        assert!(tags(&environment("")).contains(&"`XDG_RUNTIME_DIR`"));
        assert_eq!(environment("start").len(), 2);
        assert!(tags(&environment("image pull")).contains(&"`DOCKER_CONFIG`"));
        assert_eq!(environment("host check").len(), 1);
        assert!(environment("state").is_empty());
    }

    #[test]
    fn files_are_those_that_the_table_says_a_command_has() {
        assert!(tags(&files("")).contains(&"`/run/dayfly/ID`"));
        assert_eq!(files("cgroup persist").len(), 1);
        assert!(files("state").is_empty());
    }
}
