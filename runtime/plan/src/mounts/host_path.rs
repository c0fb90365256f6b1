//! File systems created from paths of the host.

use spec::Mount;
use spec::mount_options::MountOptions;

/// The maximum length in bytes of a string that fsconfig(2) accepts.
pub(super) const LONGEST_PARAMETER: usize = 255;

/// Returns whether a new file system is created from paths of the host, such as a device or the layers of an overlay.
/// Returns false for bind mounts.
pub(super) fn names_host_path(mount: &Mount<'_>) -> bool {
    const WITHOUT: [&str; 8] =
        ["proc", "tmpfs", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", "bind"];
    if WITHOUT.contains(&mount.kind.as_str()) {
        return false;
    }
    // `//host/share` is reached through the container's network.
    let named =
        |text: &str| text.starts_with('/') && !text.starts_with("//") || text.contains("=/");
    let mut texts = mount.source.iter().chain(&mount.options);
    texts.any(|text| named(text)) && MountOptions::parse(&mount.options).bind.is_none()
}

/// Returns whether init itself must create a file system from a path of the host, so that its mount namespace must
/// contain the host's mounts. This is so for an option too long for fsconfig(2), because mount(2) cannot create a
/// detached file system. It is also so for relative paths, which are resolved from the root, init's working directory.
pub fn needs_host_table(mount: &Mount<'_>) -> bool {
    let is_long = mount.options.iter().any(|option| option.len() > LONGEST_PARAMETER);
    (is_long || has_relative_layers(mount)) && names_host_path(mount)
}

/// Returns whether the mount is an overlay whose layers are relative to the root.
pub(super) fn has_relative_layers(mount: &Mount<'_>) -> bool {
    mount.kind == "overlay" && mount.options.iter().any(|option| names_relative_layer(option))
}

fn names_relative_layer(option: &str) -> bool {
    let Some((key, value)) = option.split_once('=') else { return false };
    let is_relative = |path: &str| !path.is_empty() && !path.starts_with('/');
    match key {
        // The text after an escaped colon may be mistaken for a relative path. In that case init,
        // instead of the parent, creates the overlay.
        "lowerdir" => value.split(':').any(is_relative),
        "lowerdir+" | "datadir+" | "upperdir" | "workdir" => is_relative(value),
        _ => false,
    }
}
