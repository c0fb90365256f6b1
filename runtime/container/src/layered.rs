//! Root filesystems from layers. Takes the resources on the host that such a root filesystem needs, and releases them.
//!
//! Everything is decided before the plan is compiled. The layers are grouped by the mounts they lie on
//! (`rootfs::Layers`), and a mode is chosen by kernel version, file system and a test of overlayfs (`rootfs::Mode`). A
//! range of ids is taken, and becomes the id mappings of the user namespace in the configuration. In the plan, the
//! steps `map layers`, `open layers`, `make upper` and `assemble rootfs` take the place of the root's `clone tree`
//! (`plan/src/layers.rs`). `rootfs::Assembly` runs these steps.

pub(crate) mod record;
mod stats;
pub(crate) mod view;

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use plan::{GivenRoot, Kernel};
use rootfs::ids::{Grants, Leases, RANGE};
use rootfs::{Assembly, Layers, Mode, Recipe, Upper};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Access;
use spec::{IdMapping, Namespace, NamespaceKind, Spec};
use sys::fs::c_path;
use sys::{Context, Errno};

use crate::bundle::Bundle;
use crate::directory::{self, TryClone};
use crate::layered::record::LayeredRecord;
use crate::options::{CreateOptions, LayeredOptions, Purpose, UserNamespace};
use crate::store::Claim;
use crate::{Error, Store, time};

/// The subdirectory of a store that contains one directory per container.
const CONTAINERS: &str = "containers";
/// The size in bytes of the tmpfs for mount points in a read-only root filesystem.
const PLACES: u64 = 1 << 20;

/// Returns the filesystem of a recipe as a detached mount, made by this process. The ids are mapped as in the user
/// namespace, if one is given.
pub(crate) fn assemble(
    recipe: &Recipe,
    user_namespace: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, rootfs::Error> {
    let mut assembly = Assembly::new(recipe);
    assembly.map_layers(user_namespace)?;
    if !recipe.mode.is_attached() {
        assembly.open_layers()?;
    }
    assembly.make_upper()?;
    let tree = assembly.assemble()?;
    assembly.detach_layers()?;
    Ok(tree)
}

/// Releases the id ranges that a killed command took for a container, but did not write into the container's record.
///
/// # Errors
/// If a range cannot be released.
pub fn free_ids(store: &Store, id: &str, leases: &str) -> Result<(), Error> {
    store.trace().point("free ids of", id)?;
    // A caller that may not write to this directory cannot have taken a range.
    if rustix::fs::access(leases, Access::READ_OK | Access::WRITE_OK).is_err() {
        return Ok(());
    }
    Ok(Leases::open(leases)?.give_back_all(&format!("{}/{id}", store.path()))?)
}

/// A prepared root filesystem. Dropping this value releases the resources on the host, unless the container's record
/// already contains them.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub recipe: Recipe,
    pub record: Box<LayeredRecord>,
    place: String,
    /// The state root, the container's name in it, and its locked directory.
    root: OwnedFd,
    id: String,
    claimed: RefCell<Option<Claim>>,
    kept: Cell<bool>,
    counts: Cell<rootfs::Counts>,
}

impl Prepared {
    /// Returns the root filesystem in the form that the plan's compiler accepts.
    pub fn root(&self) -> GivenRoot<'_> {
        GivenRoot::layered(&self.recipe, &self.place)
    }

    /// Takes the container's locked directory, which was created together with the lease of the id range.
    pub fn take_claim(&self) -> Option<Claim> {
        self.claimed.take()
    }

    /// Adds a line to the trace that describes how the root filesystem was assembled. Stores `counts` for
    /// [`Self::stats`].
    pub fn tell(&self, trace: &crate::Trace, counts: rootfs::Counts) {
        if trace.is_on() {
            trace.remark(stats::line(&self.recipe, counts));
        }
        self.counts.set(counts);
    }

    /// Returns the text of `run --stats`.
    pub fn stats(&self, trace: &crate::Trace) -> String {
        stats::text(&self.recipe, self.counts.get(), &trace.timeline("dayfly run", &self.id))
    }

    /// Keeps the resources, because the container's record contains them now.
    pub fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.kept.get() {
            return;
        }
        let _ = self.record.release();
        if let Some(claimed) = self.take_claim() {
            let _ = directory::remove(self.root.as_fd(), claimed.directory.as_fd(), &self.id);
        }
    }
}

/// Chooses how the container's root filesystem is assembled, takes the container's id range, and adds both to the
/// configuration.
pub(crate) fn prepare(
    store: &Store,
    create: &CreateOptions<'_>,
    options: &LayeredOptions<'_>,
    bundle: &Bundle,
    spec: &mut Spec<'_>,
    purpose: Purpose,
) -> Result<Prepared, Error> {
    let (id, version) = (create.id, Kernel::probe().version);
    let text = sys::fs::read_text(options.layers.as_str()).context("read", &options.layers)?;
    let layers = match options.image {
        Some(_) => Layers::of_store(&text)?,
        None => Layers::anywhere(&text)?,
    };
    if !rustix::process::geteuid().is_root() {
        return Err(Error::text(
            "a root filesystem from layers requires root, at least of a user namespace: \
             unshare --user --map-root-user --mount dayfly run …",
        ));
    }
    // In a user namespace, overlayfs stores whiteouts and opaque marks in other extended attributes.
    let in_user_namespace = sys::user_namespace::is_nested();
    let mapped = match options.user_namespace {
        UserNamespace::Auto | UserNamespace::Range(_) | UserNamespace::Shared => true,
        UserNamespace::Host => false,
        UserNamespace::Configured => configured(spec)?.is_some(),
    };
    if mapped && in_user_namespace {
        return Err(Error::text(
            "a range of ids for a container requires the host's root: use --userns host here",
        ));
    }
    let mode = match options.mode {
        Some(mode) => {
            mode.check(version)?;
            mode
        }
        None => Mode::choose(version, &layers, mapped),
    };
    let upper = match spec.root.as_ref().is_some_and(|root| root.readonly) {
        _ if options.ephemeral => Upper::Tmpfs { size: options.size },
        // This upper layer will contain only missing mount points.
        true if !matches!(mode, Mode::Path | Mode::Copy) => Upper::Tmpfs { size: Some(PLACES) },
        _ => Upper::Directory,
    };
    let directory = format!("{}/{CONTAINERS}/{id}", options.store);
    let on_disk = upper == Upper::Directory
        || mode != Mode::Fd
        // Nothing can be removed from a store on a read-only medium, so its image needs no link that keeps it.
        || (options.image.is_some()
            && rustix::fs::access(options.store, Access::WRITE_OK) != Err(Errno::ROFS));
    let mut prepared = Prepared {
        recipe: Recipe {
            mode,
            layers,
            upper,
            directory: c_path(&*directory).context("find", &directory)?,
            root: None,
            // The root filesystem is used by one container only.
            volatile: true,
            label: label(spec),
            user_xattr: in_user_namespace,
            foreign: None,
            files: options.image.as_ref().map(|image| image.files(spec, id)).unwrap_or_default(),
        },
        record: Box::new(LayeredRecord {
            directory: if on_disk { directory } else { String::new() },
            attached: mode != Mode::Fd,
            image: options.image.as_ref().map_or(String::new(), |image| image.directory.clone()),
            store: options.store.to_string(),
            lease: None,
            since: time::now(),
            owner: format!("{}/{id}", store.path()),
        }),
        place: place(&bundle.path, spec, create.no_pivot, options.image.is_some()),
        root: store.root_fd().try_clone_fd()?,
        id: id.to_string(),
        claimed: RefCell::new(match purpose {
            Purpose::Start | Purpose::Restore => Some(store.claim(id)?),
            Purpose::Plan => None,
        }),
        // A plan has taken nothing that could be released.
        kept: Cell::new(purpose == Purpose::Plan),
        counts: Cell::default(),
    };
    take_ids(options, spec, &mut prepared, purpose)?;
    Ok(prepared)
}

fn take_ids(
    options: &LayeredOptions<'_>,
    spec: &mut Spec<'_>,
    prepared: &mut Prepared,
    purpose: Purpose,
) -> Result<(), Error> {
    let first = match options.user_namespace {
        UserNamespace::Configured => {
            prepared.recipe.root = configured(spec)?;
            return Ok(());
        }
        UserNamespace::Host => {
            let linux = spec.linux.get_or_insert_default();
            linux.namespaces.retain(|namespace| namespace.kind != NamespaceKind::User);
            return Ok(());
        }
        UserNamespace::Range(first) if purpose == Purpose::Plan => first,
        // Which range is free is known once it is taken.
        UserNamespace::Auto if purpose == Purpose::Plan => Grants::read(&options.ids)?.shared()?,
        UserNamespace::Shared => Grants::read(&options.ids)?.shared()?,
        UserNamespace::Auto | UserNamespace::Range(_) => {
            let grants = Grants::read(&options.ids)?;
            let owner = prepared.record.owner();
            let leases = Leases::open(options.leases)?;
            let first = match options.user_namespace {
                UserNamespace::Range(first) => leases.take_range(&grants, first, &owner)?,
                _ => leases.take(&grants, &owner)?,
            };
            prepared.record.lease = Some((first, options.leases.to_string()));
            first
        }
    };
    prepared.recipe.root = Some((first, first));
    let linux = spec.linux.get_or_insert_default();
    linux.namespaces.retain(|namespace| namespace.kind != NamespaceKind::User);
    linux.namespaces.push(Namespace { kind: NamespaceKind::User, path: None });
    let map = || Vec::from([IdMapping { container_id: 0, host_id: first, size: RANGE }]);
    linux.uid_mappings = map();
    linux.gid_mappings = map();
    Ok(())
}

/// Returns the host's uid and gid to which the container's root is mapped, if the configuration has a user namespace.
fn configured(spec: &Spec<'_>) -> Result<Option<(u32, u32)>, Error> {
    let Some(linux) = &spec.linux else { return Ok(None) };
    let Some(namespace) = linux.namespace(NamespaceKind::User) else { return Ok(None) };
    if namespace.path.is_some() {
        return Err(Error::text("layers can't be mapped for a user namespace that is joined"));
    }
    let of_root =
        |maps: &[IdMapping]| maps.iter().find(|map| map.container_id == 0).map(|map| map.host_id);
    Ok(of_root(&linux.uid_mappings).zip(of_root(&linux.gid_mappings)))
}

fn label(spec: &Spec<'_>) -> Option<CString> {
    let label = spec.linux.as_ref()?.mount_label.as_deref()?;
    CString::new(label).ok()
}

/// Returns the path at which init attaches the root filesystem in its mount namespace, which begins as a copy of the
/// host's. By default this is `/`. With hooks, it is the path at which the hooks expect the root filesystem. Without
/// pivot_root(2), the root filesystem is later moved over `/`, so it is first attached over the bundle's directory,
/// which always exists.
pub(crate) fn place(bundle: &str, spec: &Spec<'_>, no_pivot: bool, is_image: bool) -> String {
    let hooks = &spec.hooks;
    let look = [&hooks.prestart, &hooks.create_runtime, &hooks.create_container];
    match &spec.root {
        // An image's hooks are dayfly's own, which do not look at it.
        Some(root) if !is_image && look.iter().any(|hooks| !hooks.is_empty()) => {
            plan::absolute(bundle, &root.path)
        }
        _ if no_pivot => String::from(bundle),
        _ => String::from("/"),
    }
}
