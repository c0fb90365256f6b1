//! `persist` and `unpersist`: apply a cgroup plan at each boot.
//!
//! The cgroup plan is copied to /etc/dayfly/cgroup. With systemd, a unit applies the plan after file systems are
//! mounted and before any service starts. With other init systems, a script in /etc/init.d applies the plan; links in
//! the runlevels start the script.

use super::cgroup_plan::{self, Kind, Named};
use crate::boot::{self, Unit};
use crate::cgroups::options::{Apply, Init, Persist, PlanFile, Unpersist};
use report::{Error, sayln};
use std::fs;
use std::path::{Path, PathBuf};

/// The target that starts the unit; all services start after it.
const WANTED_BY: &str = "basic.target";

/// The runlevels that start services.
const RUNLEVELS: [u8; 4] = [2, 3, 4, 5];

/// Applies the cgroup plan now and at each boot.
///
/// # Errors
/// An invalid cgroup plan; failing system calls.
pub fn persist(options: &Persist) -> Result<(), Error> {
    // A cgroup plan that can't be parsed would fail at boot, where nobody notices.
    let found = cgroup_plan::load(&options.file)?;
    let own = options.file.display().to_string();
    let is_left = |(file, source): &&Named| !file.starts_with('/') && *source.file == *own;
    if let Some((file, source)) = found.includes.iter().find(is_left) {
        let reason = format!("{file} is not copied with the cgroup plan");
        return Err(source.error(reason).advise(
            "use its absolute path (it is read at boot), or put everything into one file",
        ));
    }
    let text = cgroup_plan::read(&options.file)?;
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let name = match &options.name {
        Some(name) => name.clone(),
        None => options.file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let places = Places::new(root, &name)?;
    if options.root.is_none() {
        let file = options.file.clone();
        let plan = PlanFile { file, user: None, process: None, pid: None, sysroot: None };
        super::apply::apply(&Apply { plan, dry_run: false, quiet: false, below_usage: false })?;
    }
    // An earlier cgroup plan of this name is replaced, even if it has another format or is for another init system.
    boot::remove(&places.all())?;
    let kind = match Kind::of(&options.file, &text) {
        Kind::Cgconfig => "conf",
        Kind::Toml => "toml",
    };
    boot::put(&places.plans.join(format!("{name}.{kind}")), &text, 0o644)?;
    let seen = Path::new("/etc/dayfly/cgroup").join(format!("{name}.{kind}"));
    let file = match options.init.unwrap_or_else(|| running(root)) {
        Init::Systemd => {
            // % begins a specifier in units.
            let dayfly = program().replace('%', "%%");
            let text = include_str!("persist/cgroup.service");
            places.unit.enable(&filled(text, &name, &seen, &dayfly))?;
            &places.unit.file
        }
        Init::Sysv => {
            let dayfly = program().replace('\'', r"'\''");
            let text = filled(include_str!("persist/cgroup.init"), &name, &seen, &dayfly);
            boot::put(&places.script, &text, 0o755)?;
            let link = |place: &PathBuf| boot::link("../init.d", &places.script, place);
            places.links.iter().try_for_each(link)?;
            &places.script
        }
    };
    sayln!("# applied at each boot by {}", file.display());
    Ok(())
}

/// Stops applying a cgroup plan at boot. The groups stay.
///
/// # Errors
/// No cgroup plan of that name; failing system calls.
pub fn unpersist(options: &Unpersist) -> Result<(), Error> {
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let places = Places::new(root, &options.name)?;
    if !boot::remove(&places.all())? {
        bail!("nothing called {:?} is applied at boot", options.name);
    }
    for directory in [Some(places.plans.as_path()), places.plans.parent()].into_iter().flatten() {
        // rmdir(2) fails unless the directory is empty.
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

/// The paths of the installed files.
struct Places {
    name: String,
    plans: PathBuf,
    unit: Unit,
    script: PathBuf,
    links: Vec<PathBuf>,
}

impl Places {
    fn new(root: &Path, name: &str) -> Result<Self, Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(refused!("{name:?} can't be the name of a service")
                .advise("--name sets another name, of letters, digits, - and _"));
        }
        let etc = root.join("etc");
        let unit = format!("dayfly-cgroup-{name}.service");
        let script = format!("dayfly-cgroup-{name}");
        let link = |level: &u8| etc.join(format!("rc{level}.d/S01{script}"));
        Ok(Self {
            name: name.to_owned(),
            plans: etc.join("dayfly/cgroup"),
            unit: Unit::new(&etc.join("systemd/system"), &unit, WANTED_BY),
            links: RUNLEVELS.iter().map(link).collect(),
            script: etc.join("init.d").join(&script),
        })
    }

    /// Returns the paths of all files that may be installed.
    fn all(&self) -> Vec<PathBuf> {
        let plans = ["toml", "conf"].map(|kind| self.plans.join(format!("{}.{kind}", self.name)));
        let all = [&self.unit.link, &self.unit.file, &self.script].into_iter();
        all.chain(&self.links).chain(&plans).cloned().collect()
    }
}

/// Returns the init system of the host whose root directory is `root`. For `/`, systemd's own test decides
/// (sd_booted(3)). Any other directory is the root of an image: there the result depends on whether systemd is
/// installed.
fn running(root: &Path) -> Init {
    let signs = ["run/systemd/system", "lib/systemd/systemd", "usr/lib/systemd/systemd"];
    let wanted = if root == Path::new("/") { &signs[..1] } else { &signs[1..] };
    if wanted.iter().any(|sign| root.join(sign).exists()) { Init::Systemd } else { Init::Sysv }
}

/// Returns the text of a file in which `@name@`, `@plan@` and `@dayfly@` are replaced.
fn filled(text: &str, name: &str, plan: &Path, dayfly: &str) -> String {
    let plan = plan.display().to_string();
    text.replace("@name@", name).replace("@plan@", &plan).replace("@dayfly@", dayfly)
}

/// Returns the path of the dayfly beside this program or in the same installation, or /usr/local/bin/dayfly if there is
/// none.
fn program() -> String {
    let found = report::program::near().and_then(|path| path.canonicalize().ok());
    found.unwrap_or_else(|| PathBuf::from("/usr/local/bin/dayfly")).display().to_string()
}
