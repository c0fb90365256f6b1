//! `report`: reproduces the experiments of papers and articles on this host, and shows the results on one page.
//!
//! | part | what |
//! |---|---|
//! | `papers/*.toml`, [`paper`] | data: published figures, and the experiments that reproduce them |
//! | [`mod@line`] | extracts figures from an experiment's output |
//! | `execute` | runs a part's experiment as a separate process |
//! | `page`, `picture` | the page, as HTML, Markdown and JSON |
//! | [`verdict`] | what the figures say about the published ones |
//! | `written` | reads a page's JSON, to make the page again |
//!
//! A part is an experiment of this program or of `dayfly host`, executed as a user would execute it: the command that
//! the page shows reproduces the part's figures. The result of a finished part is kept, and the part is not run again.
//! Some experiments would change the host, or need something that the host lacks. The page shows the results of these
//! experiments from a virtual machine, if there are any.

mod execute;
mod first;
mod kept;
mod lack;
pub mod line;
mod page;
pub mod paper;
mod picture;
mod row;
#[cfg(test)]
mod tests;
mod verdict;
mod written;

pub use execute::end_with_the_report;

use crate::harness::*;
use crate::runtime;
use crate::view::View;
use kept::Kept;
use page::{Page, Section};
use paper::{PAPERS, Paper, Part, Way};
use report::{say, sayln};

/// `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The directory for the page and the kept results
    #[arg(short, long, value_name = "DIR", default_value = "dayfly-report")]
    pub output: PathBuf,
    /// Measure nothing: make the page again from the report.json of an earlier report and the
    /// pictures in its directory
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["quick", "only", "list", "again", "runtimes", "view", "no_device_rules", "rounds"]
    )]
    pub from: Option<PathBuf>,
    /// Measure fewer rounds: takes up to 10 minutes on two CPUs, instead of up to an hour
    #[arg(long)]
    pub quick: bool,
    /// Run only these parts
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// List the parts, with the paper's figures that they reproduce, and the duration of each
    #[arg(long)]
    pub list: bool,
    /// Run finished parts again
    #[arg(long)]
    pub again: bool,
    /// A runtime; may be given several times, the first one must be a dayfly [default: dayfly, and
    /// crun, runc and youki as far as they are found]
    #[arg(long = "runtime", value_name = "[NAME=]PATH")]
    pub runtimes: Vec<String>,
    /// Measure in this view of the host's cgroups [default: as the host is]
    #[arg(long, value_enum)]
    pub view: Option<View>,
    /// Omit the device rules: crun before 1.9 can't load them without CAP_SYS_RESOURCE
    #[arg(long)]
    pub no_device_rules: bool,
    /// Number of rounds of every part, even if that is too few for an interval
    #[arg(long, value_name = "N", value_parser = some)]
    pub rounds: Option<usize>,
}

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
    let directory = &options.output;
    if let Some(file) = &options.from {
        let page = written::read(file, directory)?;
        fs::create_dir_all(directory).map_err(Error::at("make", directory))?;
        let _lock = kept::lock(directory)?;
        page.write(directory)?;
    } else {
        measure(options, &parts)?;
    }
    sayln!("{}", directory.join("index.html").display());
    Ok(())
}

/// Runs the unfinished ones of these parts, and writes the page after each.
fn measure(options: &Report, parts: &[Place]) -> Result<(), Error> {
    if let Some(view) = options.view {
        // The parts' processes inherit the view.
        view.enter()?;
    }
    let directory = &options.output;
    fs::create_dir_all(directory.join(kept::PLACE)).map_err(Error::at("make", directory))?;
    let _lock = kept::lock(directory)?;
    let runtimes = runtime::find(&options.runtimes)?;
    let host = Circumstances::take("see each part".to_owned(), runtimes, Path::new("/run"));
    for (at, (_, part)) in parts.iter().enumerate() {
        let Way::Experiment(experiment) = &part.way else { continue };
        if part.lacking(&host).is_some() {
            continue;
        }
        let name = &part.name;
        let which = format!("[{}/{}] {name}", at + 1, parts.len());
        let words = experiment.words(name, options, &host);
        let old = Kept::read(directory, name);
        if !options.again && old.is_some_and(|old| old.is_done(&words)) {
            eprintln!("{which}: done before");
            continue;
        }
        let about = experiment.seconds(options.quick);
        eprintln!("{which}: {}, about {about} s", part.place);
        let kept = execute::part(directory, name, experiment, words, about)?;
        match &kept.failure {
            None => eprintln!("{which}: done in {:.0} s", kept.seconds),
            Some(reason) => eprintln!("{which}: failed: {reason}"),
        }
        kept.write(directory, name)?;
        write(directory, &host)?;
        interrupt::check()?;
    }
    write(directory, &host)
}

/// Writes the page from all kept results.
fn write(directory: &Path, host: &Circumstances) -> Result<(), Error> {
    let sections = parts().map(|place| Section::of(directory, place, host));
    let sections = sections.collect::<Result<_, _>>()?;
    Page::new(host.clone(), sections).write(directory)
}

/// A part, with its paper.
type Place = (&'static Paper, &'static Part);

/// Returns all parts, in the order of the page.
fn parts() -> impl Iterator<Item = Place> {
    PAPERS.iter().flat_map(|paper| paper.parts.iter().map(move |part| (paper, part)))
}

/// Returns the parts with these names, in the order of the page; all if there are no names.
fn chosen(names: &[String]) -> Result<Vec<Place>, Error> {
    if let Some(unknown) = names.iter().find(|name| parts().all(|(_, part)| part.name != **name)) {
        bail!("no part {unknown}: --list prints all");
    }
    Ok(parts().filter(|(_, part)| names.is_empty() || names.contains(&part.name)).collect())
}

fn list(parts: &[Place]) -> String {
    let mut text = String::new();
    for of in parts.chunk_by(|one, other| one.0.title == other.0.title) {
        let mut table = Table::new(&["part", "quick, s", "full, s", "stands for"]).left(&[0, 3]);
        for (_, part) in of {
            let [quick, full] = match &part.way {
                Way::Experiment(it) => [true, false].map(|quick| it.seconds(quick).to_string()),
                Way::Guest(_) => ["-", "in a guest"].map(str::to_owned),
                Way::Nothing(_) => ["-", "not here"].map(str::to_owned),
            };
            table.row(vec![part.name.clone(), quick, full, part.place.clone()]);
        }
        text += &format!("{}\n{table}\n", of[0].0.title);
    }
    text
}
