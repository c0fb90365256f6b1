//! The entrants: dayfly's shim, and containerd's own shim with each runtime.

use super::Shim;
use crate::harness::*;
use crate::runtime::{self, Runtime};

/// The name by which containerd finds dayfly's shim program.
pub(super) const PROGRAM: &str = "containerd-shim-dayfly-v2";
/// The prefix of the names of all other entrants, which are containerd's own shim with different
/// runtimes.
const OTHER: &str = "Go shim + ";

/// Returns the entrants: first dayfly's shim, if it is found, then containerd's own shim with each runtime.
///
/// # Errors
/// A named runtime or shim is missing.
pub(super) fn entrants(options: &Shim, common: &Common) -> Result<Vec<Entrant>, Error> {
    let mut entrants = Vec::new();
    if let Some(shim) = own(options)? {
        let argument = format!("dayfly shim={}", shim.display());
        entrants.push(Entrant::new(Runtime::from_argument(&argument)?));
    }
    for runtime in runtime::find(&common.runtimes)? {
        entrants
            .push(Entrant { name: format!("{OTHER}{}", runtime.name), ..Entrant::new(runtime) });
    }
    Ok(entrants)
}

/// Returns the path of dayfly's shim, if it is found.
fn own(options: &Shim) -> Result<Option<PathBuf>, Error> {
    if let Some(path) = &options.shim {
        let path = std::fs::canonicalize(path).map_err(Error::at("find shim", path))?;
        return Ok(Some(path));
    }
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    Ok(beside.filter(|path| path.is_file()).or_else(|| report::program::in_path(PROGRAM)))
}

/// Returns whether the entrant is dayfly's shim.
pub(super) fn is_own(entrant: &Entrant) -> bool {
    !entrant.name.starts_with(OTHER)
}

/// Returns ctr's options that select the shim and runtime.
pub(super) fn ctr_options(entrant: &Entrant) -> Vec<String> {
    if is_own(entrant) {
        return vec!["--runtime".to_owned(), "io.containerd.dayfly.v2".to_owned()];
    }
    let path = entrant.runtime.path.display().to_string();
    ["--runtime", "io.containerd.runc.v2", "--runc-binary", &path].map(str::to_owned).to_vec()
}

/// Returns the runtime's name in containerd's configuration.
pub(super) fn handler(entrant: &Entrant) -> String {
    let name = entrant.runtime.name.chars();
    name.map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

/// Returns the entrant's table in the CRI's configuration.
pub(super) fn cri_table(entrant: &Entrant) -> String {
    let name = handler(entrant);
    let path: &Path = if is_own(entrant) { Path::new("") } else { &entrant.runtime.path };
    let kind = if is_own(entrant) { "io.containerd.dayfly.v2" } else { "io.containerd.runc.v2" };
    let top = format!("plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}");
    format!(
        "[{top}]\n  runtime_type = '{kind}'\n[{top}.options]\n  BinaryName = '{}'\n",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_words_and_a_table() {
        let own = Entrant::named("dayfly shim");
        assert!(is_own(&own));
        assert_eq!(ctr_options(&own), ["--runtime", "io.containerd.dayfly.v2"]);
        assert_eq!(handler(&own), "dayfly-shim");
        let mut other = Entrant::named("runc-1.1");
        other.name = format!("{OTHER}runc-1.1");
        assert!(!is_own(&other));
        assert_eq!(ctr_options(&other)[1], "io.containerd.runc.v2");
        let table = cri_table(&other);
        assert!(
            table.contains("runtimes.runc-1-1]\n  runtime_type = 'io.containerd.runc.v2'"),
            "{table}"
        );
    }
}
