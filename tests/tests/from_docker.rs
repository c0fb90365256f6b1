//! docs/from-docker.md: each row of its tables is run in a bed of its own, with an image made here.
//!
//! A row has what is typed, and what dayfly does: it `prints` a line, `succeeds`, or refuses the command line and `says`
//! a line, the first on standard error. `then` a second command `prints` a line: the effect. `…` stands for any text. A
//! comment `<!-- before: COMMANDS -->` below a heading has what is run before each row of this section.

use crate::run_image::{image_of, path, programs};
use dayfly_tests::bed::Bed;
use dayfly_tests::kernel::version;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::view::View;
use dayfly_tests::{case, image, program, wait};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(enough_rows),
    case!(first_share).unlike_runc().needs(programs),
    case!(second_share).unlike_runc().needs(programs),
    case!(third_share).unlike_runc().needs(programs),
    case!(fourth_share).unlike_runc().needs(programs),
];

const PAGE: &str = include_str!("../../docs/from-docker.md");
/// The number of cases among which the rows are divided.
const SHARES: usize = 4;
/// Names of containers in the page, each of which is replaced by an id that is unique on this machine.
const NAMES: [&str; 2] = ["web", "db"];

/// A row of the page.
struct Row {
    before: &'static str,
    typed: String,
    effects: Vec<Effect>,
}

/// What a row claims.
enum Effect {
    Succeeds,
    Prints(String),
    Says(String),
    Then(String, String),
}

/// Returns whether a row needs a kernel that keeps exit codes.
fn is_of_newer_kernel(row: &Row) -> bool {
    row.typed.contains("docker wait") && version() < (6, 15)
}

fn rows() -> Vec<Row> {
    let (mut before, mut all) = ("", Vec::new());
    for line in PAGE.lines() {
        if line.starts_with("## ") {
            before = "";
        }
        if let Some(commands) = line.strip_prefix("<!-- before: ") {
            before = commands.strip_suffix(" -->").expect("the end of the comment");
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let row = row.replace("\\|", "\0");
        let (typed, rest) = row.split_once("` | ").expect("two columns");
        let claims = rest.strip_suffix(" |").expect("the end of the row");
        let text = |text: &str| text.replace('\0', "|");
        let effects = claims.split("; then ").map(|claim| effect(&text(claim)));
        all.push(Row { before, typed: text(typed), effects: effects.collect() });
    }
    all
}

fn effect(claim: &str) -> Effect {
    let parts: Vec<&str> = claim.split('`').collect();
    match parts[..] {
        ["succeeds"] => Effect::Succeeds,
        ["prints ", text, ""] => Effect::Prints(text.into()),
        ["says ", text, ""] => Effect::Says(text.into()),
        ["", command, " prints ", text, ""] => Effect::Then(command.into(), text.into()),
        _ => panic!("not a claim: {claim}"),
    }
}

/// Returns whether `text` is as `pattern` says. Runs of blanks are one.
fn fits(text: &str, pattern: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (text, pattern) = (plain(text), plain(pattern));
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(before) = last {
            let Some((_, after)) = rest.split_once(before) else { return false };
            rest = after;
        }
        last = Some(part);
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

/// The place where a row is run: a state root, a store, and a program `docker`, which is dayfly with both.
struct Place<'a> {
    bed: &'a Bed,
    dir: PathBuf,
    names: [String; 2],
}

impl<'a> Place<'a> {
    fn new(bed: &'a Bed, number: usize) -> Self {
        let dir = bed.dir.join(format!("row{number}"));
        fs::create_dir_all(dir.join("here")).expect("make directory");
        let script = format!(
            "#!/bin/sh\nexport DAYFLY_STORE={0}/store DAYFLY_IDS={0}/ids PATH={1}:$PATH\nexec {2} --root {0}/root \"$@\"\n",
            path(&dir),
            path(image::program().parent().expect("a directory")),
            path(bed.runtime()),
        );
        program::write(&dir.join("docker"), &script);
        Self { bed, dir, names: [bed.id(), bed.id()] }
    }

    /// Replaces the names of containers.
    fn named(&self, text: &str) -> String {
        NAMES
            .iter()
            .zip(&self.names)
            .fold(text.to_owned(), |text, (name, id)| text.replace(name, id))
    }

    fn run(&self, command: &str) -> Outcome {
        let command = self.named(command);
        let dir = path(&self.dir);
        let script = format!("PATH={dir}:$PATH; cd {dir}/here; {command}");
        match command.contains(" -it ") {
            // A terminal, as the user has.
            true => self.bed.program("script", &["-qec", &script, "/dev/null"]).run(),
            false => self.bed.program("sh", &["-c", &script]).run(),
        }
    }
}

/// Runs a row; returns what is wrong.
fn check(place: &Place<'_>, row: &Row) -> Result<(), String> {
    let imported =
        place.run(&format!("docker load -q -i {}", path(&place.bed.dir.join("alpine.tar"))));
    assert_eq!(imported.code(), 0, "{imported}");
    if !row.before.is_empty() {
        let before = place.run(row.before);
        assert_eq!(before.code(), 0, "{before}");
    }
    let outcome = place.run(&row.typed);
    let lacks = "is not available in /sys/fs/cgroup";
    if place.bed.view == View::V2 && outcome.stderr.contains(lacks) {
        // The host has this controller in no v2 hierarchy.
        return Ok(());
    }
    let wrong = |what: &str, outcome: &Outcome| Err(format!("{}: {what}\n{outcome}", row.typed));
    let has = |outcome: &Outcome, text: &str| {
        let text = place.named(text);
        // script(1) types the end of its empty input, which the terminal echoes.
        let lines = outcome.stdout.lines().map(|line| line.trim_start_matches("^@"));
        lines.map(|line| line.trim_start_matches("^D\u{8}\u{8}")).any(|line| fits(line, &text))
    };
    for effect in &row.effects {
        match effect {
            Effect::Says(text) => {
                let line = outcome.stderr.lines().next().unwrap_or_default();
                let expected = format!("error: {}", place.named(text));
                if outcome.code() == 0 || !fits(line, &expected) {
                    return wrong(&format!("does not say {expected}"), &outcome);
                }
            }
            _ if outcome.code() != 0 => return wrong("fails", &outcome),
            Effect::Prints(text) if !has(&outcome, text) => {
                return wrong("prints other lines", &outcome);
            }
            Effect::Then(command, text) => {
                // A container that got a signal may need a moment.
                let end = Instant::now() + wait::patience() / 2;
                let mut then = place.run(command);
                while !has(&then, text) {
                    if Instant::now() > end {
                        return wrong("has no such effect", &then);
                    }
                    std::thread::sleep(Duration::from_millis(50));
                    then = place.run(command);
                }
            }
            Effect::Succeeds | Effect::Prints(_) => {}
        }
    }
    Ok(())
}

fn share(bed: &Bed, number: usize) {
    image_of(bed, Vec::new());
    image::call(bed, &["tag", "test", "alpine"]).run().ok();
    let archive = bed.dir.join("alpine.tar");
    image::call(bed, &["save", "-o", path(&archive), "alpine"]).run().ok();
    let mut all = Vec::new();
    for (at, row) in rows().iter().enumerate().filter(|(at, _)| at % SHARES == number) {
        if is_of_newer_kernel(row) {
            continue;
        }
        let place = Place::new(bed, at);
        all.extend(check(&place, row).err());
        let end = place.run("all=$(docker ps -aq); [ -z \"$all\" ] || docker rm -f $all");
        assert_eq!(end.code(), 0, "{end}");
    }
    assert!(all.is_empty(), "{} rows are wrong:\n{}", all.len(), all.join("\n"));
}

fn first_share(bed: &Bed) {
    share(bed, 0);
}

fn second_share(bed: &Bed) {
    share(bed, 1);
}

fn third_share(bed: &Bed) {
    share(bed, 2);
}

fn fourth_share(bed: &Bed) {
    share(bed, 3);
}

/// The page is useful only if it has most of what is typed, and dayfly does most of it.
fn enough_rows(_: &Bed) {
    let rows = rows();
    let refused = |row: &&Row| row.effects.iter().any(|effect| matches!(effect, Effect::Says(_)));
    let done = rows.len() - rows.iter().filter(refused).count();
    assert!(rows.len() >= 160 && done >= 100, "{} rows, {done} of which dayfly does", rows.len());
}
