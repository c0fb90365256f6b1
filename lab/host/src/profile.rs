//! `dayfly profile`: learns a seccomp profile from runs of a container.
//!
//! | part | what |
//! |---|---|
//! | [`calls`] | records by ptrace(2) the system calls made under a filter |
//! | [`narrow`](mod@narrow) | narrows a profile to these calls: the result allows nothing that the original denies |
//! | [`learner`] | runs a bundle with a profile, and cleans up |
//! | [`saved`] | the savings of the new profile |
//! | [`options`] | the command line |

pub mod calls;
pub mod learner;
pub mod narrow;
pub mod options;
pub mod saved;

use crate::follow::Stop;
use crate::output;
use calls::Made;
use learner::Learner;
use narrow::{allowed, compile, narrow, permissive};
use options::Learn;
use report::interrupt::{self, Second};
use report::{Error, program, say};
use saved::Cost;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Runs the command.
///
/// # Errors
/// An invalid bundle, profile or file; a run that fails; an interrupt. In these cases nothing is written.
pub fn learn(options: &Learn) -> Result<(), Error> {
    interrupt::catch(Second::Waits)?;
    let stop = stopped_by_signals()?;
    let runtime = options.runtime.clone().or_else(program::dayfly);
    let runtime = runtime.ok_or_else(|| {
        refused!("no dayfly beside this program or in $PATH").advise("name it by --runtime PATH")
    })?;
    let runtime = fs::canonicalize(&runtime).map_err(Error::of("find runtime", &runtime))?;
    let config = learner::read(&options.bundle, &options.program)?;
    let own = Some(config["linux"]["seccomp"].clone()).filter(|profile| !profile.is_null());
    let old = own.clone().unwrap_or_else(permissive);
    compile(&old, "the bundle's linux.seccomp")?;
    // A profile that cannot be narrowed is rejected before anything runs.
    narrow(&old, &BTreeSet::new())?;
    let merged = options.merge.iter().map(|file| merge(file)).collect::<Result<Vec<_>, _>>()?;
    if let Some(directory) = options.output.as_deref().and_then(Path::parent) {
        let directory = if directory == Path::new("") { Path::new(".") } else { directory };
        fs::metadata(directory).map_err(Error::of("find", directory))?;
    }

    let mut runs = Learner::new(&runtime, config, options.deadline, &stop)?;
    runs.shown = true;
    let mut made = BTreeSet::new();
    let mut told = String::new();
    for run in 1..=options.count {
        let heard =
            runs.hear(&old).map_err(|error| failed("learning", run, options.count, &error))?;
        let before = made.len();
        made.extend(heard);
        let (more, what) = (made.len() - before, if run == 1 { "system calls" } else { "more" });
        let _ = writeln!(told, "run {run} of {}: {more} {what}", options.count);
    }
    let mut names: BTreeSet<&str> = made.iter().flat_map(Made::names).collect();
    names.extend(merged.iter().flat_map(allowed));
    let new = narrow(&old, &names)?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for run in 1..=options.count {
        for (what, profile, loads) in [("former", &old, &mut before), ("learned", &new, &mut after)]
        {
            let when = format!("with the {what} profile");
            let more = runs.loads(profile);
            loads.extend(more.map_err(|error| failed(&when, run, options.count, &error))?);
        }
    }
    drop(runs);
    let cost = own.as_ref().map(|_| Cost::of(&old, &before)).transpose()?;
    told += &tell(options, &made, &new, cost.as_ref(), &Cost::of(&new, &after)?);
    interrupt::check()?;
    let text = format!("{new:#}\n");
    match &options.output {
        Some(file) => {
            output::replace(file, &text, None)?;
            say!("{told}");
        }
        None => {
            eprint!("{told}");
            say!("{text}");
        }
    }
    Ok(())
}

/// Prints a summary of the learned profile.
fn tell(
    options: &Learn,
    made: &BTreeSet<Made>,
    new: &Value,
    before: Option<&Cost>,
    after: &Cost,
) -> String {
    let passes = allowed(new);
    let mut refused = BTreeSet::new();
    let mut nameless = BTreeSet::new();
    for call in made {
        let names = call.names();
        match names.first() {
            None => _ = nameless.insert(call.to_string()),
            Some(_) if names.iter().any(|name| passes.contains(name)) => {}
            Some(name) => _ = refused.insert(*name),
        }
    }
    let mut text = String::new();
    let mut list = |what: &str, calls: Vec<&str>| {
        if !calls.is_empty() {
            let _ = writeln!(text, "{what}: {}", calls.join(", "));
        }
    };
    list("made, and refused as before", refused.into_iter().collect());
    list(
        "was made, and is refused because dayfly has no name for it",
        nameless.iter().map(String::as_str).collect(),
    );
    let times = match options.count {
        1 => "once more".to_owned(),
        count => format!("{count} times more"),
    };
    let _ = writeln!(text, "with the learned profile the bundle ran {times}, and succeeded");
    text + &saved::text(before, after)
}

fn failed(when: &str, run: u16, count: u16, error: &Error) -> Error {
    if interrupt::came() {
        return Error::from(interrupt::Interrupted);
    }
    refused!("{when}, run {run} of {count}: {error}; nothing is written")
}

/// Reads a profile that was learned before.
fn merge(file: &Path) -> Result<Value, Error> {
    let profile = learner::read_json(file)?;
    compile(&profile, &file.display().to_string())?;
    Ok(profile)
}

/// Returns a handle that stops all runs when a signal arrives.
fn stopped_by_signals() -> Result<Arc<Stop>, Error> {
    let stop = Arc::new(Stop::default());
    let mut wakes = interrupt::wakes()?;
    let stops = Arc::clone(&stop);
    // The thread waits for as long as this program runs.
    std::thread::spawn(move || {
        if wakes.read(&mut [0]).is_ok_and(|read| read > 0) {
            stops.stop();
        }
    });
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_does_not_compile_is_refused() {
        let file = std::env::temp_dir().join(format!("profile-{}.json", std::process::id()));
        fs::write(&file, "two").expect("write");
        let error = merge(&file).expect_err("no profile").to_string();
        assert!(error.contains(&*file.to_string_lossy()), "{error}");
        fs::remove_file(&file).expect("remove");
    }
}
