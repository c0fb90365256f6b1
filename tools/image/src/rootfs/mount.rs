//! `dayfly rootfs mount`

use super::mounted::{Mounted, release, try_lock};
use super::options::Mount;
use crate::error::{Error, Result, bail, c_path, ensure, unfit, warn};
use rootfs::ids::{Config, Grants, RANGE};
use rootfs::{Assembly, Layers, Mode, Recipe, Upper, image};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, move_mount};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::mount::{MountAttr, attr, mount_setattr};

const TAKES_ROOT: &str =
    "mounting requires root, at least of a user namespace: unshare --user --map-root-user --mount";

/// Mounts layers at a directory.
pub(super) fn mount(options: &Mount) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "{TAKES_ROOT}");
    let store = options.places.store.directory()?;
    let directory =
        fs::canonicalize(&options.directory).map_err(Error::at("open", &options.directory))?;
    ensure!(
        directory.is_dir(),
        "mount at {}: it is not a directory, and a root filesystem is mounted at one: make one with mkdir, and name \
             that",
        directory.display()
    );
    let (image, layers) = layers(options, &store.to_string_lossy())?;
    let home = Mounted::home_of(&store, &directory);
    fs::create_dir_all(&home).map_err(Error::at("mkdir", &home))?;
    let taken = || unfit!("{} is mounted already, or about to be", directory.display());
    let _lock = try_lock(&home)?.ok_or_else(taken)?;
    let leases = options.places.leases()?;
    match Mounted::read(&home)? {
        Some(former) if former.may_exist()? => return Err(taken()),
        // A killed command has left this directory behind.
        Some(former) => {
            former.release(&leases)?;
            return mount(options);
        }
        None => {}
    }
    if let Some(image) = &image {
        pin(&store, &home, image)?;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut record = Mounted {
        home: home.clone(),
        directory,
        source: options.source.clone(),
        mode: String::new(),
        layers: layers.len(),
        ids: None,
        since: u64::try_from(since).unwrap_or_default(),
        namespace: rootfs::own_mount_namespace()?,
    };
    let done = take_ids(options, &mut record).and_then(|()| {
        let recipe = recipe(options, layers, &record)?;
        record.mode = recipe.mode.name().into();
        record.write()?;
        attach(&recipe, &record)
    });
    if let Err(error) = done {
        // `gc` later removes resources that cannot be removed now.
        let _ = record.release(&leases);
        return Err(error);
    }
    Ok(())
}

/// Returns the layers, and the directory of their image if there is one.
fn layers(options: &Mount, store: &str) -> Result<(Option<String>, Layers)> {
    let source = &options.source;
    if source.starts_with(['/', '.']) {
        let text = fs::read_to_string(source).map_err(Error::at("read", source))?;
        return Ok((None, Layers::anywhere(&text)?));
    }
    let found = image::look_up(store, source)?;
    if let Some(remark) = found.remark(source) {
        warn(&remark);
    }
    let image = found.directory;
    let path = format!("{image}/layers");
    let text = fs::read_to_string(&path).map_err(Error::at("read", path))?;
    Ok((Some(image), Layers::of_store(&text)?))
}

/// Keeps an image from being removed while the mount's directory exists.
fn pin(store: &Path, home: &Path, image: &str) -> Result<()> {
    let link = home.join("image");
    // Images are removed under the same lock, so this image cannot disappear meanwhile.
    let _lock = image::lock(&store.to_string_lossy())?;
    // A killed command may have left a link.
    let _ = fs::remove_file(&link);
    symlink(image, &link).map_err(Error::at("symlink", &link))?;
    match Path::new(image).exists() {
        true => Ok(()),
        false => {
            let _ = release(home);
            bail!("image {image} has just been removed")
        }
    }
}

fn take_ids(options: &Mount, record: &mut Mounted) -> Result<()> {
    let grants = || {
        let user = options.subid_user.as_deref();
        Grants::read(&Config { user, ..Config::default() })
    };
    record.ids = match options.uid_range.as_str() {
        "host" => None,
        "shared" => Some((grants()?.shared()?, RANGE, false)),
        "auto" => {
            let first = options.places.leases()?.take(&grants()?, &record.owner());
            Some((first?, RANGE, true))
        }
        range => {
            let numbers = range.split_once(':');
            let numbers =
                numbers.and_then(|(first, count)| Some((first.parse().ok()?, count.parse().ok()?)));
            let (first, count) = numbers.ok_or_else(|| {
                unfit!("--uid-range {range}: must be auto, shared, host or START:COUNT")
            })?;
            Some((first, count, false))
        }
    };
    Ok(())
}

fn recipe(options: &Mount, layers: Layers, record: &Mounted) -> Result<Recipe> {
    let version = version();
    let mode = match options.rootfs_mode.as_str() {
        "auto" => Mode::choose(version, &layers, record.ids.is_some()),
        name => {
            let mode = Mode::parse(name).ok_or_else(|| unfit!("no rootfs mode {name}"))?;
            mode.check(version)?;
            mode
        }
    };
    Ok(Recipe {
        mode,
        layers,
        upper: match (options.ephemeral, options.read_only) {
            (true, _) => Upper::Tmpfs { size: options.ephemeral_size },
            (false, true) => Upper::None,
            (false, false) => Upper::Directory,
        },
        directory: c_path(&record.home)?,
        root: record.ids.map(|(first, ..)| (first, first)),
        // Changes are discarded on unmount.
        volatile: true,
        label: None,
        user_xattr: sys::user_namespace::is_nested(),
        foreign: None,
        files: Vec::new(),
    })
}

fn attach(recipe: &Recipe, record: &Mounted) -> Result<()> {
    let mut assembly = Assembly::new(recipe);
    let tree = match recipe.mode {
        Mode::Copy => assembly.copy_layers()?,
        mode => {
            let user_namespace = record.ids.map(user_namespace).transpose()?;
            assembly.map_layers(user_namespace.as_ref().map(AsFd::as_fd))?;
            if !mode.is_attached() {
                assembly.open_layers()?;
            }
            assembly.make_upper()?;
            let tree = assembly.assemble()?;
            assembly.detach_layers()?;
            tree
        }
    };
    // Devices of an image must not be usable on the host.
    let nodev = MountAttr { set: attr::NODEV, ..MountAttr::default() };
    mount_setattr(tree.as_fd(), false, &nodev)
        .map_err(Error::at("mount_setattr", &record.directory))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, c"", CWD, &record.directory, flags)
        .map_err(Error::at("mount at", &record.directory))
}

fn user_namespace((first, count, _): (u32, u32, bool)) -> Result<OwnedFd> {
    let proc = fs::File::open("/proc").map_err(Error::at("open", "/proc"))?;
    let map = format!("0 {first} {count}\n");
    Ok(sys::user_namespace::make(proc.as_fd(), &map, &map)?)
}

fn version() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (next(), next())
}
