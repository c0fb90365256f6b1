//! cgroups of other programs: a checkpoint does not save them, and a restore does not touch them.

use super::Saved;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::cgroups;
use dayfly_tests::criu;
use dayfly_tests::leak;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};
use std::ffi::CString;
use std::fs;
use std::path::PathBuf;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(foreign_ones_stay_gone)
        .on(&[View::V1, View::V2])
        .needs(|| criu::lacking().and_then(|()| hidden().map(drop)))
        .unlike_runc(),
    case!(ones_that_existed_before_are_kept).needs(criu::lacking).unlike_runc(),
];

/// A cgroup hierarchy of the host that the view does not show, so that a container has no cgroup of its own there.
struct Hidden {
    kind: &'static str,
    options: CString,
    /// This process's own cgroup, in which containers begin.
    own: String,
}

/// Returns a hierarchy that the view hides.
fn hidden() -> Result<Hidden, String> {
    let view = View::current()?;
    let text = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let fields = |line: &str| -> Option<(String, String)> {
        let (list, own) = line.split_once(':')?.1.split_once(':')?;
        Some((list.to_owned(), own.trim_end_matches('/').to_owned()))
    };
    let is_hidden = |list: &str| match view {
        View::V1 => list.is_empty(),
        View::V2 => !list.is_empty() && !list.contains('='),
        View::Hybrid => false,
    };
    let found = text.lines().filter_map(fields).find(|(list, _)| is_hidden(list));
    let (list, own) =
        found.ok_or_else(|| format!("the {} view hides no hierarchy of this host", view.name()))?;
    let kind = if list.is_empty() { "cgroup2" } else { "cgroup" };
    Ok(Hidden { kind, options: CString::new(list).expect("controllers"), own })
}

/// A mount of a hidden hierarchy. Unmounted on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn foreign_ones_stay_gone(bed: &Bed) {
    let hidden = hidden().expect("a hidden hierarchy");
    let place = bed.dir.join("hierarchy");
    fs::create_dir(&place).expect("mkdir");
    let options = Some(hidden.options.as_c_str()).filter(|options| !options.is_empty());
    mount("none", &place, hidden.kind, MountFlags::empty(), options).expect("mount");
    let mounted = Mounted(place);
    let own = mounted.0.join(hidden.own.trim_start_matches('/'));
    let foreign = own.join(format!("foreign-{}", bed.id()));
    fs::create_dir(&foreign).expect("mkdir");
    let saved = Saved::counting(bed);
    saved.checkpoint(&["--leave-running"]).ok();
    fs::remove_dir(&foreign).expect("rmdir");
    saved.c.delete_force().ok();

    saved.restore(&[]).ok();
    assert!(!foreign.exists(), "{} is there again", foreign.display());
    saved.counts();
    // The container's own cgroup exists, and contains its processes.
    let mut seen = cgroups::hierarchies(bed.view).into_iter().map(|hierarchy| {
        let own = hierarchy.join(cgroups::path_of(&saved.c.id).trim_start_matches('/'));
        fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default()
    });
    let pid = saved.c.pid().to_string();
    assert!(seen.all(|procs| procs.lines().any(|line| line == pid)), "{pid}");
}

/// The restore fails after criu has succeeded, because a hook has put a file into a directory that the restore then
/// removes.
fn ones_that_existed_before_are_kept(bed: &Bed) {
    let saved = Saved::counting(bed);
    saved.checkpoint(&[]).ok();
    let place = bed.root().join(&saved.c.id).join("restore");
    let config = saved.c.bundle.join("config.json");
    let text = fs::read_to_string(&config).expect("read");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    let args = ["sh", "-c", &format!("cat >/dev/null; echo >{}/file", place.display())];
    value["hooks"] = json!({ "createRuntime": [{ "path": "/bin/sh", "args": args }] });
    fs::write(&config, value.to_string()).expect("write");
    let tops = cgroups::hierarchies(bed.view);
    let own = cgroups::path_of(&saved.c.id);
    let groups = || tops.iter().map(|top| top.join(own.trim_start_matches('/')));
    for exists in [true, false] {
        if exists {
            groups().for_each(|group| fs::create_dir_all(group).expect("mkdir"));
        }
        saved.restore(&[]).fails("rmdir restore: directory not empty");
        for group in groups() {
            assert_eq!(group.exists(), exists, "{}", group.display());
        }
        assert_eq!(leak::processes(std::slice::from_ref(&saved.c.id)), []);
        groups().for_each(|group| drop(fs::remove_dir(group)));
        assert!(!saved.c.exists());
    }
    fs::write(&config, text).expect("write");
    saved.restore(&[]).ok();
    saved.counts();
}
