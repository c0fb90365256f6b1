//! `persist` and `unpersist`: apply a cgroup plan at each boot.
//!
//! The cgroup plan is copied to /etc/dayfly/cgroup. With systemd, a unit applies the plan after file systems are
//! mounted and before any service starts. With other init systems, a script in /etc/init.d applies the plan; links in
//! the runlevels start the script.

use super::cgroup_plan::{self, Include, Kind};
use crate::cgroups::options::{Apply, Init, Persist, PlanFile, Unpersist};
use report::{Error, sayln};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
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
    let is_left = |it: &&Include| it.file.is_relative() && *it.source.file == *own;
    if let Some(include) = found.includes.iter().find(is_left) {
        let reason = format!("{} is not copied with the cgroup plan", include.file.display());
        return Err(include.source.error(reason).advise(
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
    places.remove()?;
    let kind = match Kind::of(&options.file, &text) {
        Kind::Cgconfig => "conf",
        Kind::Toml => "toml",
    };
    put(&places.plans.join(format!("{name}.{kind}")), &text, 0o644)?;
    let seen = Path::new("/etc/dayfly/cgroup").join(format!("{name}.{kind}"));
    match options.init.unwrap_or_else(|| running(root)) {
        Init::Systemd => {
            put(&places.unit, &unit(&name, &seen), 0o644)?;
            let target = Path::new("../").join(places.unit.file_name().unwrap_or_default());
            link(target, &places.wanted)?;
            sayln!("# applied at each boot by {}", places.unit.display());
        }
        Init::Sysv => {
            put(&places.script, &script(&name, &seen), 0o755)?;
            let target = Path::new("../init.d").join(places.script.file_name().unwrap_or_default());
            places.links.iter().try_for_each(|place| link(target.clone(), place))?;
            sayln!("# applied at each boot by {}", places.script.display());
        }
    }
    Ok(())
}

/// Stops applying a cgroup plan at boot. The groups stay.
///
/// # Errors
/// No cgroup plan of that name; failing system calls.
pub fn unpersist(options: &Unpersist) -> Result<(), Error> {
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let places = Places::new(root, &options.name)?;
    if !places.remove()? {
        let reason = format!("nothing called {:?} is applied at boot", options.name);
        return Err(Error::refused(reason));
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
    unit: PathBuf,
    wanted: PathBuf,
    script: PathBuf,
    links: Vec<PathBuf>,
}

impl Places {
    fn new(root: &Path, name: &str) -> Result<Self, Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            let reason = format!("{name:?} can't be the name of a service");
            return Err(Error::refused(reason)
                .advise("--name sets another name, of letters, digits, - and _"));
        }
        let etc = root.join("etc");
        let unit = format!("dayfly-cgroup-{name}.service");
        let script = format!("dayfly-cgroup-{name}");
        let link = |level: &u8| etc.join(format!("rc{level}.d/S01{script}"));
        Ok(Self {
            name: name.to_owned(),
            plans: etc.join("dayfly/cgroup"),
            unit: etc.join("systemd/system").join(&unit),
            wanted: etc.join("systemd/system").join(format!("{WANTED_BY}.wants")).join(&unit),
            links: RUNLEVELS.iter().map(link).collect(),
            script: etc.join("init.d").join(&script),
        })
    }

    /// Removes all installed files; returns whether there were any.
    fn remove(&self) -> Result<bool, Error> {
        let plans = ["toml", "conf"].map(|kind| self.plans.join(format!("{}.{kind}", self.name)));
        let all = [&self.wanted, &self.unit, &self.script].into_iter();
        let mut any = false;
        for path in all.chain(&self.links).chain(&plans) {
            match fs::remove_file(path) {
                Ok(()) => any = true,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::of("remove", path)(error)),
            }
        }
        Ok(any)
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

fn unit(name: &str, plan: &Path) -> String {
    let plan = plan.display();
    // % begins a specifier in units.
    let dayfly = program().replace('%', "%%");
    format!(
        "# Written by \"dayfly cgroup persist\", removed by \"dayfly cgroup unpersist {name}\".\n\
         [Unit]\nDescription=The cgroups of {plan}\nDocumentation=man:dayfly(8)\n\
         DefaultDependencies=no\nConflicts=shutdown.target\n\
         After=sysinit.target local-fs.target\nBefore={WANTED_BY} shutdown.target\n\
         RequiresMountsFor={plan} \"{dayfly}\"\nConditionPathExists={plan}\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=\"{dayfly}\" cgroup apply --quiet {plan}\n\
         SyslogIdentifier=dayfly-cgroup-{name}\n\n\
         [Install]\nWantedBy={WANTED_BY}\n"
    )
}

fn script(name: &str, plan: &Path) -> String {
    let plan = plan.display();
    let dayfly = program().replace('\'', r"'\''");
    format!(
        "#!/bin/sh\n### BEGIN INIT INFO\n# Provides:          dayfly-cgroup-{name}\n\
         # Required-Start:    $local_fs\n# Required-Stop:\n\
         # Should-Start:      cgroupfs-mount cgroup-lite\n# Default-Start:     2 3 4 5\n\
         # Default-Stop:\n# Short-Description: the cgroups of {plan}\n### END INIT INFO\n\
         case ${{1:-start}} in\n    \
         start | restart | force-reload) exec '{dayfly}' cgroup apply --quiet {plan} ;;\n    \
         status) exec '{dayfly}' cgroup diff {plan} ;;\n    \
         stop) ;;\n    \
         *)\n        echo \"usage: $0 start|stop|restart|force-reload|status\" >&2\n        \
         exit 2\n        ;;\nesac\n"
    )
}

/// Returns the path of the dayfly beside this program or in the same installation, or /usr/local/bin/dayfly if there is
/// none.
fn program() -> String {
    let own = std::env::current_exe().unwrap_or_default();
    let directory = own.parent().unwrap_or(Path::new(""));
    let near = [directory.join("dayfly"), directory.join("../../bin/dayfly")];
    let found = near.into_iter().filter_map(|path| path.canonicalize().ok()).next();
    found.unwrap_or_else(|| PathBuf::from("/usr/local/bin/dayfly")).display().to_string()
}

/// Writes a file under a temporary name and renames it, so that the file never appears incomplete.
fn put(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(Error::of("make", parent))?;
    let new =
        parent.join(format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()));
    fs::write(&new, text).map_err(Error::of("write", &new))?;
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(&new, permissions).map_err(Error::of("chmod", &new))?;
    fs::rename(&new, path).map_err(Error::of("rename", path))
}

fn link(target: PathBuf, place: &Path) -> Result<(), Error> {
    let parent = place.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(Error::of("make", parent))?;
    match symlink(target, place) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map_err(Error::of("link", place)),
    }
}
