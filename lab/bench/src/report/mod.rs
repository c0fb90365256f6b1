//! `report`: reproduces the experiments of papers and articles on this host, and shows the results on one page.
//!
//! | part | what |
//! |---|---|
//! | [`paper`], `papers` | data: published figures, and the experiments that reproduce them |
//! | `execute` | runs a part's experiment as a separate process |
//! | `take` | extracts figures from an experiment's output |
//! | `page`, `picture` | the page, as HTML, Markdown and JSON |
//! | `written` | reads a page's JSON, to make the page again |
//!
//! A part is an experiment of this program or of `dayfly host`, executed as a user would execute it: the command that
//! the page shows reproduces the part's figures. The result of a finished part is kept, and the part is not run again.
//! Some experiments would change the host, or need something that the host lacks. The page shows the results of these
//! experiments from a virtual machine, if there are any.

mod execute;
mod kept;
mod page;
pub mod paper;
mod papers;
mod picture;
mod row;
mod take;
#[cfg(test)]
mod tests;
mod written;

use crate::Error;
use crate::circumstances::Circumstances;
use crate::options::Report;
use crate::runtime;
pub use execute::end_with_the_report;
use kept::Kept;
use measure::progress::Progress;
use page::{Page, Section};
use paper::{Effort, Paper, Part, Way};
use report::{Table, interrupt, say, sayln};
use std::fs;
use std::path::Path;

/// All papers and articles.
pub const PAPERS: [&Paper; 5] = [
    &papers::FAVORDYNMODS,
    &papers::MOUNTS,
    &papers::GROUPS,
    &papers::FIVE_MS,
    &papers::CONTAINER_RUNTIME,
];

/// Executes the command: runs the unfinished parts, and writes the page.
///
/// # Errors
/// An unknown part; a directory that can't be written; an interrupt, after which the same command resumes.
pub fn command(options: &Report) -> Result<(), Error> {
    let parts = chosen(&options.only)?;
    if options.list {
        say!("{}", list(&parts).trim_end().to_owned() + "\n");
        return Ok(());
    }
    if let Some(file) = &options.from {
        return again(file, &options.output);
    }
    if let Some(view) = options.view {
        // The parts' processes inherit the view.
        view.enter()?;
    }
    let directory = &options.output;
    fs::create_dir_all(directory.join(kept::PLACE)).map_err(Error::at("make", directory))?;
    let _lock = kept::lock(directory)?;
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let host = host(options)?;
    let count = parts.len();
    let wakes = interrupt::wakes()?;
    for (at, (_, part)) in parts.iter().enumerate() {
        let Way::Command(command) = &part.way else { continue };
        let words = command.words(part.name, effort, options, &host);
        let old = Kept::read(directory, part.name);
        if !options.again && old.is_some_and(|old| old.is_done(&words)) {
            eprintln!("[{}/{count}] {}: done before", at + 1, part.name);
            continue;
        }
        let about = command.seconds(effort);
        eprintln!("[{}/{count}] {}: {}, about {about} s", at + 1, part.name, part.place);
        let kept = execute::part(directory, part.name, command, words, about, &wakes)?;
        match &kept.failure {
            None => eprintln!("[{}/{count}] {}: done in {:.0} s", at + 1, part.name, kept.seconds),
            Some(reason) => eprintln!("[{}/{count}] {}: failed: {reason}", at + 1, part.name),
        }
        kept.write(directory, part.name)?;
        // The page is available after each part.
        write(directory, &host)?;
        interrupt::check()?;
    }
    write(directory, &host)?;
    sayln!("{}", directory.join("index.html").display());
    Ok(())
}

/// Writes the page from the JSON of an earlier page.
fn again(file: &Path, directory: &Path) -> Result<(), Error> {
    let page = written::read(file)?;
    fs::create_dir_all(directory).map_err(Error::at("make", directory))?;
    let _lock = kept::lock(directory)?;
    page.write(directory)?;
    sayln!("{}", directory.join("index.html").display());
    Ok(())
}

/// Writes the page from all kept results.
fn write(directory: &Path, host: &Circumstances) -> Result<(), Error> {
    let mut sections = Vec::new();
    for paper in PAPERS {
        for part in paper.parts {
            sections.push(Section::of(directory, paper, part, host)?);
        }
    }
    Page { host: host.clone(), sections }.write(directory)
}

/// Returns the parts with these names, in the order of the page; all if there are no names.
fn chosen(names: &[String]) -> Result<Vec<(&'static Paper, &'static Part)>, Error> {
    let all = || PAPERS.iter().flat_map(|paper| paper.parts.iter().map(move |part| (*paper, part)));
    if let Some(unknown) = names.iter().find(|name| all().all(|(_, part)| part.name != **name)) {
        return Err(Error::Unfit(format!("no part {unknown}: --list prints all")));
    }
    Ok(all()
        .filter(|(_, part)| names.is_empty() || names.iter().any(|name| name == part.name))
        .collect())
}

fn list(parts: &[(&Paper, &Part)]) -> String {
    let mut text = String::new();
    for of in parts.chunk_by(|one, other| one.0.title == other.0.title) {
        let headings = ["part", "quick, s", "full, s", "stands for"];
        let mut table = Table::new(&headings).left(&[0, 3]);
        for (_, part) in of {
            let seconds = match &part.way {
                Way::Command(command) => {
                    [Effort::Quick, Effort::Full].map(|effort| command.seconds(effort).to_string())
                }
                Way::Guest(_) => ["-", "in a guest"].map(str::to_owned),
                Way::Nothing(_) => ["-", "not here"].map(str::to_owned),
            };
            let mut cells = vec![part.name.to_owned()];
            cells.extend(seconds);
            cells.push(part.place.to_owned());
            table.row(cells);
        }
        let title = of.first().map_or("", |(paper, _)| paper.title);
        text += &format!("{title}\n{table}\n");
    }
    text
}

/// Returns the circumstances of the page's figures.
fn host(options: &Report) -> Result<Circumstances, Error> {
    let runtimes = runtime::find(&options.runtimes)?;
    Ok(Circumstances::take("see each part".to_owned(), runtimes, Path::new("/run")))
}

/// Shows a part's progress, estimated from the elapsed time.
fn progress(of: &mut Progress, name: &str, passed: u64, about: u64) {
    of.tell(
        &format!("{name}, seconds"),
        usize::try_from(passed).unwrap_or(0),
        usize::try_from(about).unwrap_or(0),
    );
}
