//! Results on disk. They add up over runs, as long as the programs are the same, and the rows of the table of known
//! differences that they need are in it.

use crate::options::Options;
use dayfly_tests::differ::compare::Known;
use dayfly_tests::differ::view::View;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

/// The results of one view.
pub struct Results {
    dir: PathBuf,
    /// The view, and who runs the runtimes.
    name: String,
    file: File,
    verdicts: BTreeMap<u64, Verdict>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
}

impl Results {
    /// Opens the results of these programs in this view.
    ///
    /// # Errors
    /// Those of reading and writing files.
    pub fn open(options: &Options, view: View, known: &[Known]) -> io::Result<Self> {
        fs::create_dir_all(options.results.join("failures"))?;
        let mut sum = 0u64;
        let own = std::env::current_exe()?;
        for program in [&options.dayfly, &options.runc, &own, &own.with_file_name("differ-probe")] {
            sum = dayfly_tests::differ::sum(sum, fs::read(program)?);
        }
        let name = format!("{}{}", view.name(), if options.rootless { "-rootless" } else { "" });
        let path = options.results.join(format!("{name}-{sum:016x}"));
        let rows: BTreeSet<String> = known.iter().map(|row| row.number().to_string()).collect();
        let mut verdicts = BTreeMap::new();
        for line in fs::read_to_string(&path).unwrap_or_default().lines() {
            let mut words = line.split(' ');
            let (Some(seed), Some(verdict)) = (words.next(), words.next()) else { continue };
            let passed = verdict == "passed" && words.all(|row| rows.contains(row));
            let verdict = if passed { Verdict::Passed } else { Verdict::Failed };
            seed.parse().ok().and_then(|seed: u64| verdicts.insert(seed, verdict));
        }
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { dir: options.results.clone(), name, file, verdicts })
    }

    /// Returns whether a seed has passed. What failed is run again.
    pub fn has(&self, seed: u64) -> bool {
        self.verdicts.get(&seed) == Some(&Verdict::Passed)
    }

    /// Adds the answer of a worker.
    ///
    /// # Errors
    /// Those of writing files.
    pub fn add(&mut self, seed: u64, answer: &Value) -> io::Result<()> {
        let verdict = if answer["passed"] == true { Verdict::Passed } else { Verdict::Failed };
        self.verdicts.insert(seed, verdict);
        let mut line = match verdict {
            Verdict::Passed => format!("{seed} passed"),
            Verdict::Failed => format!("{seed} failed"),
        };
        for row in answer["rows"].as_array().into_iter().flatten() {
            line += &format!(" {row}");
        }
        writeln!(self.file, "{line}")?;
        if verdict == Verdict::Failed {
            let path = self.dir.join(format!("failures/{}-{seed}.json", self.name));
            fs::write(path, serde_json::to_string_pretty(answer)?)?;
        }
        Ok(())
    }

    /// Writes a shrunk case beside its failure.
    ///
    /// # Errors
    /// Those of writing files.
    pub fn keep_small(&self, seed: u64, kind: &str, answer: &Value) -> io::Result<()> {
        let name: String = kind
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(60)
            .collect();
        let path = self.dir.join(format!("failures/{}-{seed}-{name}.json", self.name));
        fs::write(path, serde_json::to_string_pretty(answer)?)
    }

    /// Prints the totals of a range of seeds; returns whether all have passed.
    ///
    /// # Errors
    /// Those of writing the tally.
    pub fn end(&self, seeds: &Range<u64>) -> io::Result<bool> {
        let count = |wanted: Option<Verdict>| {
            seeds.clone().filter(|seed| self.verdicts.get(seed).copied() == wanted).count()
        };
        let (passed, failed, skipped) =
            (count(Some(Verdict::Passed)), count(Some(Verdict::Failed)), count(None));
        if let Some(path) = std::env::var_os("DAYFLY_TALLY") {
            let mut file = File::options().append(true).create(true).open(path)?;
            writeln!(file, "{passed} {failed} {skipped}")?;
        }
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        Ok(failed == 0)
    }
}
