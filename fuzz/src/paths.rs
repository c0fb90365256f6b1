//! Paths that are joined and cleaned as text, without access to files, and paths of cgroups.

use cgroup::{Controllers, Hierarchies, Hierarchy, Location};

/// Tests an input of two lines, which are used as a base and a path, and also as a cgroupsPath and a path below it.
pub fn target(data: &[u8]) {
    let Some(texts) = crate::texts(data) else { return };
    let (base, path) = (texts[0], texts.get(1).copied().unwrap_or_default());
    let clean = plan::clean(path);
    check(&clean);
    assert_eq!(plan::clean(&clean), clean, "cleaned twice");
    assert_eq!(clean, model(path));
    let joined = plan::absolute(&format!("/{base}"), path);
    check(&joined);
    for all in hierarchies() {
        let Ok(location) = Location::resolve(&all, Some(path), "id") else { continue };
        places(&location);
        for controllers in [None, Some("memory"), Some("cpu,cpuacct")] {
            if let Ok(below) = location.sub(controllers, base) {
                places(&below);
            }
        }
    }
}

/// Cleans a path part by part, as the definition says, so that no `.` and `..` are left.
fn model(path: &str) -> String {
    let parts = path.split('/').fold(Vec::new(), |mut parts, part| {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
        parts
    });
    format!("/{}", parts.join("/"))
}

fn check(path: &str) {
    assert!(path.starts_with('/'), "{path:?}");
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    assert!(path == "/" || !path[1..].split('/').any(odd), "{path:?}");
}

/// Checks that every cgroup directory is below the mount point of its hierarchy, and is not the mount point itself.
fn places(location: &Location) {
    let legacy = location.legacy.iter().map(|legacy| &legacy.place);
    for place in location.unified.iter().chain(legacy) {
        check(place.directory());
        assert!(place.path().len() > 1 && place.path().starts_with('/'), "{place:?}");
        assert!(place.directory().starts_with("/sys/fs/cgroup/"), "{place:?}");
        assert!(!place.directory().contains('\0'), "{place:?}");
    }
}

fn hierarchies() -> [Hierarchies; 2] {
    let root = "/sys/fs/cgroup".to_owned();
    let hierarchy = |name: &str| Hierarchy {
        controllers: Controllers::from_list(name),
        mount: format!("{root}/{name}"),
    };
    [
        Hierarchies { unified: Some(root.clone()), legacy: Vec::new(), root: root.clone() },
        Hierarchies {
            unified: Some(format!("{root}/unified")),
            legacy: vec![hierarchy("memory"), hierarchy("cpu,cpuacct")],
            root: root.clone(),
        },
    ]
}
