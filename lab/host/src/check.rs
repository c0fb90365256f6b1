//! `dayfly host check`: one screen with everything on this host that affects the start of containers.

mod cgroups;
mod images;
mod kernel;
mod limits;
pub mod machine;
pub mod measured;
mod mounts;
pub(crate) mod probe;
pub mod screen;
mod settings;
pub mod verdict;

use self::screen::Look;
use self::verdict::{Level, Section, worst};
use crate::facts::Facts;
use crate::layout::Layout;
use crate::options::Check;
use report::interrupt::{self, Second};
use report::{Error, Format, say, sayln};
use std::process::ExitCode;

/// Examines the host and prints the verdicts. Returns the worst level as exit code: 0 if all is well or only notable, 1
/// if something can be improved, and 2 if something is broken.
///
/// # Errors
/// Indispensable facts cannot be read.
pub fn check(options: &Check) -> Result<ExitCode, Error> {
    let facts = Facts::of(options.sysroot.as_deref())?;
    let measure = facts.is_live() && !options.no_measure;
    let sections = look(&facts, measure)?;
    match options.format {
        Format::Table => say!("{}", screen::draw(&head(&facts), &sections, Look::of_stdout())),
        Format::Json => {
            let json = serde_json::json!({
                "release": facts.release,
                "sysroot": facts.root(),
                "verdict": worst(&sections),
                "sections": sections,
            });
            sayln!("{json:#}");
        }
    }
    Ok(match worst(&sections) {
        Level::Good | Level::Note => ExitCode::SUCCESS,
        Level::Warning => ExitCode::from(1),
        Level::Error => ExitCode::from(2),
    })
}

/// Returns all verdicts on a host. They include timings if `measure` is set and the facts are those of this host.
///
/// # Errors
/// Indispensable facts cannot be read.
pub fn look(facts: &Facts, measure: bool) -> Result<Vec<Section>, Error> {
    let layout = Layout::of(facts);
    let mut sections = vec![
        kernel::section(facts, &layout),
        cgroups::section(facts, &layout),
        mounts::section(facts, measure),
        machine::section(facts)?,
        settings::section(facts),
        limits::section(facts),
    ];
    if measure && facts.is_live() {
        interrupt::catch(Second::Waits)?;
        sections.push(measured::section(facts, &layout)?);
    }
    Ok(sections)
}

fn head(facts: &Facts) -> String {
    let name = facts.text("/proc/sys/kernel/hostname").unwrap_or_else(|| "a host".to_owned());
    let cpus = facts.text("/sys/devices/system/cpu/online").unwrap_or_default();
    format!("{name}, Linux {}, CPUs {cpus}: effects on the start of containers", facts.release)
}
