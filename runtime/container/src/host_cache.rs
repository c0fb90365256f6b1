//! What a start takes from the host's cache. Without a cache, or where something of it cannot be had,
//! the start makes do: it compiles, loads and copies by itself.

use cache::{Cache, FilterKey};
use cgroup::devices::program;
use plan::{Caller, CgroupPlan, FastPaths, Kernel, Plan};
use rustix::fd::OwnedFd;

use crate::Error;

/// Takes the host's cache away, with its mounts. Containers that started from it do not notice.
///
/// # Errors
/// If it is not root's, or cannot be removed.
pub fn clear() -> Result<(), Error> {
    Ok(Cache::clear(cache::DEFAULT_PATH)?)
}

/// The command's own program on a read-only mount, if an earlier one has kept that.
pub(crate) fn program(fast_paths: FastPaths) -> Option<OwnedFd> {
    fast_paths.contains(FastPaths::KEPT_PROGRAM).then(cache::kept_program)?.ok()
}

/// Keeps the read-only mount that this command runs from. That it cannot be kept is nothing to the command.
#[cold]
pub(crate) fn keep_program(fast_paths: FastPaths, mount: &OwnedFd) {
    if fast_paths.contains(FastPaths::KEPT_PROGRAM) {
        let _ = Cache::open(cache::DEFAULT_PATH).and_then(|cache| cache.keep_program(mount));
    }
}

/// The cache, if this start has one.
#[derive(Debug)]
pub(crate) struct HostCache {
    cache: Option<Cache>,
    fast_paths: FastPaths,
}

impl HostCache {
    /// Opens it, unless none of what it holds is wanted, or the caller is not the host's root.
    pub fn open(fast_paths: FastPaths, caller: &Caller) -> Self {
        let held =
            FastPaths::SECCOMP_CACHE | FastPaths::DEVICE_CACHE | FastPaths::TEMPLATE_NAMESPACE;
        let wanted = fast_paths.intersects(held) && !caller.is_confined();
        let cache = if wanted { Cache::open(cache::DEFAULT_PATH).ok() } else { None };
        Self { cache, fast_paths }
    }

    fn having(&self, fast_path: FastPaths) -> Option<&Cache> {
        self.cache.as_ref().filter(|_| self.fast_paths.contains(fast_path))
    }

    /// The program of a seccomp profile.
    pub fn filter(&self, profile: &str, kernel: &Kernel) -> Result<seccomp::Program, Error> {
        let compile = || plan::compile_seccomp(profile, kernel);
        let Some(cache) = self.having(FastPaths::SECCOMP_CACHE) else { return Ok(compile()?) };
        let support = [kernel.seccomp.native as u8];
        let key = FilterKey { profile: profile.as_bytes(), support: &support };
        Ok(cache.filter(&key, compile)?)
    }

    /// The device program of the plan's cgroup, loaded. None where it needs none, where there is no
    /// cache, and where it cannot be loaded: making the cgroup then tells why.
    pub fn devices(&self, plan: &Plan) -> Option<OwnedFd> {
        let cache = self.having(FastPaths::DEVICE_CACHE)?;
        let (CgroupPlan::Create { location, resources, .. }
        | CgroupPlan::Scope { location, resources, .. }) = plan.cgroup.as_ref()?
        else {
            return None;
        };
        if !location.is_unified() {
            return None;
        }
        let program = program::of_new(&resources.devices).ok()??;
        cache.device_program(&program, || program::load_program(&program)).ok()
    }

    /// The template mount namespace.
    pub fn template(&self) -> Option<OwnedFd> {
        self.having(FastPaths::TEMPLATE_NAMESPACE)?.template().ok()
    }
}
