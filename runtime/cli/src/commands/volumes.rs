//! `--volume` and `--mount`: files and directories of the host in a container that runs an image.

use ::spec::mount_options::{self, MountOptions, Propagation};
use ::spec::{InRoot, Mount, Str};
use container::REAPER;
use rustix::fs::{Access, access};

use super::image_options::settings::each;
use super::*;

/// The default options of a bind mount, as in Podman. Options on the command line override them.
const OF_BINDS: [&str; 3] = ["nosuid", "nodev", "rbind"];

/// Returns whether an option is unknown, or does not fit a mount of this type on the command line.
fn is_unfit(word: &Str<'_>, is_bind: bool) -> bool {
    // Every field is named, so that each new one is decided here.
    let MountOptions {
        attr: _,
        recursive_attr: _,
        superblock_set: _,
        superblock_clear: _,
        propagation: _,
        bind,
        remount,
        tmpcopyup,
        id_map,
        copy_symlink,
        source_nofollow,
        destination_nofollow,
        data: _,
    } = MountOptions::parse(core::slice::from_ref(word));
    let of_binds = bind.is_some() || id_map.is_some() || source_nofollow || destination_nofollow;
    !mount_options::is_known(word) || remount || tmpcopyup || copy_symlink || of_binds && !is_bind
}

/// Returns the mounts of all `--volume` and `--mount` options, sorted so that each comes after the mounts that contain
/// its destination.
pub fn mounts<'a>(values: &Values<'a>) -> Result<Vec<Mount<'a>>, Failure> {
    let mut all = each(values, &VOLUME, volume)?;
    all.extend(each(values, &MOUNT, mount)?);
    all.extend(each(values, &TMPFS, in_memory)?);
    for (at, mount) in all.iter().enumerate() {
        if all.iter().take(at).any(|other| other.destination == mount.destination) {
            let place = &mount.destination;
            return Err(failure!("two mounts are to be at {}", place.as_str()));
        }
    }
    all.sort_by_key(|mount| mount.destination.relative().split('/').count());
    Ok(all)
}

fn volume<'a>(text: &'a str) -> Result<Mount<'a>, String> {
    let mut parts = text.splitn(3, ':');
    let (Some(source), Some(destination)) = (parts.next(), parts.next()) else {
        return Err(
            "must be SOURCE:DEST[:OPTIONS]; volumes without a source are not supported".into()
        );
    };
    if !source.starts_with(['/', '.']) {
        return Err(format!(
            "there are no named volumes: a path of the host must begin with / or ./, unlike {source:?}"
        ));
    }
    let words = parts.next().into_iter().flat_map(|options| options.split(','));
    let words: Vec<Str<'a>> = words.filter(|word| !word.is_empty()).map(Str::new).collect();
    bind(source, destination, words)
}

fn bind<'a>(source: &str, destination: &'a str, words: Vec<Str<'a>>) -> Result<Mount<'a>, String> {
    let destination = place(destination)?;
    let source = container::absolute(source).map_err(|error| error.to_string())?;
    access(source.as_str(), Access::EXISTS).map_err(|errno| {
        let why = sys::errno::describe(errno);
        format!("{source}, which is to be bound to {}: {why}", destination.as_str())
    })?;
    let mut options: Vec<Str<'a>> = OF_BINDS.map(Str::new).into();
    for word in words {
        match word.as_str() {
            // These options request an SELinux label. They have no effect on a host without SELinux.
            "z" | "Z" if access("/sys/fs/selinux/enforce", Access::EXISTS).is_err() => {}
            "z" | "Z" => return Err(format!("{word}: dayfly does not label files: use chcon")),
            "U" => {
                return Err("U: dayfly changes no owners: use chown, or the option idmap".into());
            }
            text if is_unfit(&word, true) => {
                return Err(format!("there is no option {text:?} of a bind mount"));
            }
            _ => options.push(word),
        }
    }
    Ok(Mount {
        destination,
        kind: Str::new("bind"),
        source: Some(Str::from(source)),
        options,
        ..Mount::default()
    })
}

/// Checks the destination of a mount.
fn place(destination: &str) -> Result<InRoot<'_>, String> {
    if !destination.starts_with('/') {
        return Err(format!(
            "the path in the container, {destination:?}, must be an absolute path"
        ));
    }
    let place = InRoot::new(destination);
    match place.as_str() {
        "/" => Err("the root of the container is that of the image".into()),
        "/proc" => Err("/proc is the container's own".into()),
        REAPER => Err(format!("{REAPER} is kept for --init")),
        _ => Ok(place),
    }
}

fn mount<'a>(text: &'a str) -> Result<Mount<'a>, String> {
    let (mut kind, mut source, mut destination) = ("bind", None, None);
    let mut words: Vec<Str<'a>> = Vec::new();
    let mut memory: Vec<String> = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let (key, value) =
            word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        let value_of =
            || value.filter(|value| !value.is_empty()).ok_or(format!("{key} has no value"));
        match key {
            "type" => kind = value_of()?,
            "source" | "src" => source = Some(value_of()?),
            "destination" | "dst" | "target" => destination = Some(value_of()?),
            "readonly" | "ro" => match value {
                None | Some("true" | "1") => words.push(Str::new("ro")),
                Some("false" | "0") => {}
                Some(other) => return Err(format!("{key}={other}: must be true or false")),
            },
            "bind-propagation" => {
                let value = value_of()?;
                Propagation::parse(value).ok_or(format!("there is no propagation {value:?}"))?;
                words.push(Str::new(value));
            }
            "tmpfs-size" => {
                let value = value_of()?;
                let bytes = size::parse(value).map_err(|error| format!("{key}: {error}"))?;
                if bytes < 0 {
                    return Err(format!("{key}={value}: must not be less than 0"));
                }
                memory.push(format!("size={bytes}"));
            }
            "tmpfs-mode" => {
                let value = value_of()?;
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777);
                let mode = mode.ok_or(format!("{key}={value}: must be octal, such as 1777"))?;
                memory.push(format!("mode={mode:o}"));
            }
            "idmap" | "ridmap" => words.push(Str::new(word)),
            word if value.is_none() => words.push(Str::new(word)),
            _ => return Err(format!("there is no key {key:?}")),
        }
    }
    let destination = destination.ok_or("dst=PATH is missing")?;
    match kind {
        "bind" if !memory.is_empty() => Err("tmpfs-size and tmpfs-mode are of a tmpfs".into()),
        "bind" => bind(source.ok_or("src=PATH is missing")?, destination, words),
        "tmpfs" if source.is_some() => Err("a tmpfs has no source".into()),
        "tmpfs" => tmpfs(destination, words, memory),
        other => Err(format!("type={other}: must be bind or tmpfs")),
    }
}

/// Reads `DEST[:OPTIONS]` of `--tmpfs`.
fn in_memory<'a>(text: &'a str) -> Result<Mount<'a>, String> {
    let (destination, options) = text.split_once(':').unwrap_or((text, ""));
    let words = options.split(',').filter(|word| !word.is_empty());
    let (data, words): (Vec<&str>, Vec<&str>) = words.partition(|word| {
        let key = word.split_once('=').map_or("", |(key, _)| key);
        ["size", "mode", "uid", "gid", "nr_inodes", "huge"].contains(&key)
    });
    let words = ["noexec"].into_iter().chain(words).map(Str::new).collect();
    tmpfs(destination, words, data.into_iter().map(String::from).collect())
}

fn tmpfs<'a>(
    destination: &'a str,
    words: Vec<Str<'a>>,
    memory: Vec<String>,
) -> Result<Mount<'a>, String> {
    let mut options: Vec<Str<'a>> = ["nosuid", "nodev", "mode=1777"].map(Str::new).into();
    for word in words {
        if is_unfit(&word, false) {
            return Err(format!("there is no option {:?} of a tmpfs", word.as_str()));
        }
        options.push(word);
    }
    options.extend(memory.into_iter().map(Str::from));
    Ok(Mount {
        destination: place(destination)?,
        kind: Str::new("tmpfs"),
        source: Some(Str::from("tmpfs".to_string())),
        options,
        ..Mount::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(mount: &Mount<'_>) -> Vec<String> {
        mount.options.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn volumes() {
        let mount = volume("/usr:/data/../www:ro,noexec").unwrap();
        assert_eq!((&*mount.destination, mount.source.as_deref()), ("/www", Some("/usr")));
        assert_eq!(words(&mount), ["nosuid", "nodev", "rbind", "ro", "noexec"]);
        let mapped = volume("/usr:/www:idmap=uids=0-1-9;gids=0-1-9").unwrap();
        assert_eq!(words(&mapped)[3], "idmap=uids=0-1-9;gids=0-1-9");
        for (text, reason) in [
            ("/usr", "must be SOURCE:DEST[:OPTIONS]"),
            ("data:/data", "there are no named volumes"),
            ("/usr:data", "must be an absolute path"),
            ("/usr:/", "the root of the container"),
            ("/usr:/x:rw,size=3", "no option \"size=3\""),
            ("/usr:/x:remount", "no option \"remount\""),
            ("/usr:/x:U", "changes no owners"),
            (
                "/no/such:/data",
                "/no/such, which is to be bound to /data: no such file or directory",
            ),
        ] {
            let error = volume(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn file_systems_in_memory() {
        let of = |text| in_memory(text).map(|mount| words(&mount).join(","));
        assert_eq!(of("/t").as_deref(), Ok("nosuid,nodev,mode=1777,noexec"));
        let all = of("/t:size=1m,mode=700,exec");
        assert_eq!(all.as_deref(), Ok("nosuid,nodev,mode=1777,noexec,exec,size=1m,mode=700"));
        assert!(of("/t:colour=red").unwrap_err().contains("no option \"colour=red\""));
        assert!(of("t").unwrap_err().contains("must be an absolute path"));
    }

    #[test]
    fn mounts_at_length() {
        let bound =
            mount("type=bind,source=/usr,target=/x,readonly,bind-propagation=rslave").unwrap();
        assert_eq!(words(&bound), ["nosuid", "nodev", "rbind", "ro", "rslave"]);
        let memory = mount("type=tmpfs,dst=/t,tmpfs-size=1m,tmpfs-mode=0700,noexec").unwrap();
        assert_eq!(
            words(&memory),
            ["nosuid", "nodev", "mode=1777", "noexec", "size=1048576", "mode=700"]
        );
        for (text, reason) in [
            ("type=tmpfs,dst=/x,idmap", "no option \"idmap\""),
            ("type=volume,dst=/x", "must be bind or tmpfs"),
            ("src=/usr", "dst=PATH is missing"),
            ("dst=/x", "src=PATH is missing"),
            ("src=,dst=/x", "src has no value"),
            ("src=/usr,dst=/x,ro=maybe", "must be true or false"),
            ("src=/usr,dst=/x,tmpfs-size=1m", "are of a tmpfs"),
            ("type=tmpfs,dst=/x,tmpfs-size=x", "invalid size"),
            ("type=tmpfs,dst=/x,tmpfs-mode=9", "must be octal"),
            ("type=tmpfs,src=/usr,dst=/x", "a tmpfs has no source"),
            ("src=/usr,dst=/x,bind-propagation=up", "no propagation \"up\""),
            ("src=/usr,dst=/x,colour=red", "no key \"colour\""),
        ] {
            let error = mount(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
