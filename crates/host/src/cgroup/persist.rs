//! `persist` and `unpersist`: a plan that is applied at each boot.
//!
//! The plan is copied to /etc/dayfly/cgroup. With systemd a unit applies it, ordered before the
//! services of multi-user.target; with others a script in /etc/init.d, linked into the runlevels.

use super::plan;
use crate::Error;
use crate::options::cgroup::{Apply, Persist, PlanFile, Unpersist};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What starts a host's services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Init {
    /// systemd
    Systemd,
    /// Scripts in /etc/init.d
    Sysv,
}

/// The runlevels that have services, and the one in which scripts run first.
const RUNLEVELS: [u8; 4] = [2, 3, 4, 5];

/// Has the plan applied now and at each boot.
///
/// # Errors
/// What is wrong with the plan; failing system calls.
pub fn persist(options: &Persist) -> Result<(), Error> {
    // A plan that can't be read would fail at boot, when nobody looks.
    plan::load(&options.file)?;
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
    let kind =
        if options.file.extension().is_some_and(|kind| kind == "conf") { "conf" } else { "toml" };
    let copy = places.plans.join(format!("{name}.{kind}"));
    let text = fs::read_to_string(&options.file).map_err(Error::of("read", &options.file))?;
    put(&copy, &text, 0o644)?;
    let seen = Path::new("/etc/dayfly/cgroup").join(format!("{name}.{kind}"));
    match options.init.unwrap_or_else(|| running(root)) {
        Init::Systemd => {
            put(&places.unit, &unit(&name, &seen), 0o644)?;
            link(Path::new("../").join(places.unit.file_name().unwrap_or_default()), &places.wanted)
        }
        Init::Sysv => {
            put(&places.script, &script(&name, &seen), 0o755)?;
            let target = Path::new("../init.d").join(places.script.file_name().unwrap_or_default());
            places.links.iter().try_for_each(|place| link(target.clone(), place))
        }
    }
}

/// Undoes it. The groups stay.
///
/// # Errors
/// Nothing of that name; failing system calls.
pub fn unpersist(options: &Unpersist) -> Result<(), Error> {
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let places = Places::new(root, &options.name)?;
    let plans = ["toml", "conf"].map(|kind| places.plans.join(format!("{}.{kind}", options.name)));
    let all = [&places.wanted, &places.unit, &places.script]
        .into_iter()
        .chain(&places.links)
        .chain(&plans);
    let mut removed = 0;
    for path in all {
        match fs::remove_file(path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::of("remove", path)(error)),
        }
    }
    let _ = fs::remove_dir(&places.plans);
    if removed == 0 {
        return Err(Error::refused(format!(
            "nothing called {:?} is applied at boot",
            options.name
        )));
    }
    Ok(())
}

/// Where the parts are.
struct Places {
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
            return Err(
                Error::refused(reason).advise("--name gives another one: letters, digits, - and _")
            );
        }
        let etc = root.join("etc");
        let unit = format!("dayfly-cgroup-{name}.service");
        let script = format!("dayfly-cgroup-{name}");
        let link = |level: &u8| etc.join(format!("rc{level}.d/S01{script}"));
        Ok(Self {
            plans: etc.join("dayfly/cgroup"),
            unit: etc.join("systemd/system").join(&unit),
            wanted: etc.join("systemd/system/multi-user.target.wants").join(&unit),
            links: RUNLEVELS.iter().map(link).collect(),
            script: etc.join("init.d").join(&script),
        })
    }
}

/// systemd's own test of whether it runs the host (sd_booted(3)); of an image, whether it is in there.
fn running(root: &Path) -> Init {
    let signs = ["run/systemd/system", "lib/systemd/systemd", "usr/lib/systemd/systemd"];
    let wanted = if root == Path::new("/") { &signs[..1] } else { &signs[1..] };
    if wanted.iter().any(|sign| root.join(sign).exists()) { Init::Systemd } else { Init::Sysv }
}

fn unit(name: &str, plan: &Path) -> String {
    let plan = plan.display();
    let dayfly = program();
    format!(
        "[Unit]\nDescription=The cgroups of {plan}\nDocumentation=man:dayfly(8)\n\
         ConditionPathExists={plan}\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart={dayfly} cgroup apply --quiet {plan}\nSyslogIdentifier=dayfly-cgroup-{name}\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

fn script(name: &str, plan: &Path) -> String {
    let plan = plan.display();
    let dayfly = program();
    format!(
        "#!/bin/sh\n### BEGIN INIT INFO\n# Provides:          dayfly-cgroup-{name}\n\
         # Required-Start:    $local_fs\n# Required-Stop:\n# Default-Start:     2 3 4 5\n\
         # Default-Stop:\n# Short-Description: the cgroups of {plan}\n### END INIT INFO\n\
         case ${{1:-start}} in\n\
         start | restart | force-reload) exec {dayfly} cgroup apply --quiet {plan} ;;\n\
         status) exec {dayfly} cgroup diff {plan} ;;\n\
         stop) ;;\n\
         *) echo \"usage: $0 start|stop|restart|force-reload|status\" >&2; exit 2 ;;\nesac\n"
    )
}

/// The dayfly beside which this program is, or where packages put it.
fn program() -> String {
    let own = std::env::current_exe().unwrap_or_default();
    let directory = own.parent().unwrap_or(Path::new(""));
    let near = [directory.join("dayfly"), directory.join("../../bin/dayfly")];
    let found = near.into_iter().filter_map(|path| path.canonicalize().ok()).next();
    found.unwrap_or_else(|| PathBuf::from("/usr/local/bin/dayfly")).display().to_string()
}

/// Writes a file beside its place and moves it there: whole, or not at all.
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
