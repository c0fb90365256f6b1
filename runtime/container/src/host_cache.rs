//! The use of the host's cache by a start. If the cache or an entry is unavailable, the start does
//! the cached work itself.

use cgroup::devices::program;
use plan::{Caller, CgroupPlan, FastPaths, Kernel, Plan};
use rustix::fd::OwnedFd;
use sys::reexec::OwnProgram;

use crate::Error;
use crate::cache::{self, Cache, FilterKey, Missing};

/// Removes the host's cache with its mounts. Running containers are not affected.
///
/// # Errors
/// If the cache does not belong to root, or cannot be removed.
pub fn clear() -> Result<(), Error> {
    Ok(Cache::clear(cache::DEFAULT_PATH)?)
}

/// Opens dayfly's binary on a read-only mount that an earlier command has kept.
pub(crate) fn program(fast_paths: FastPaths) -> Option<OwnProgram> {
    fast_paths.contains(FastPaths::KEPT_PROGRAM).then(cache::kept_program)?.ok()
}

/// Keeps the read-only mount from which this command runs. Failures are ignored.
#[cold]
pub(crate) fn keep_program(fast_paths: FastPaths, mount: &OwnedFd) {
    if fast_paths.contains(FastPaths::KEPT_PROGRAM) {
        let _ = Cache::open(cache::DEFAULT_PATH).and_then(|cache| cache.keep_program(mount));
    }
}

/// The host's cache, if this start uses one.
#[derive(Debug)]
pub(crate) struct HostCache {
    cache: Option<Cache>,
    fast_paths: FastPaths,
}

impl HostCache {
    /// Opens the cache if the caller is the host's root and the start uses any of the cache's contents.
    pub fn open(fast_paths: FastPaths, caller: &Caller) -> Self {
        let held = FastPaths::SECCOMP_CACHE | FastPaths::DEVICE_CACHE | FastPaths::BLANK_NAMESPACE;
        let wanted = fast_paths.intersects(held) && !caller.is_confined();
        let cache = if wanted { Cache::open(cache::DEFAULT_PATH).ok() } else { None };
        Self { cache, fast_paths }
    }

    /// Returns a cache that is not there, and is not made.
    pub const fn unused() -> Self {
        Self { cache: None, fast_paths: FastPaths::empty() }
    }

    fn having(&self, fast_path: FastPaths) -> Option<&Cache> {
        self.cache.as_ref().filter(|_| self.fast_paths.contains(fast_path))
    }

    /// Returns the program of a seccomp profile. If it had to be compiled and can be cached, also returns its place in
    /// the cache.
    pub fn filter<'a>(
        &'a self,
        profile: &'a str,
        kernel: &Kernel,
    ) -> Result<(seccomp::Program, Option<Missing<'a>>), Error> {
        let key = FilterKey {
            profile: profile.as_bytes(),
            support: kernel.seccomp.native.name().as_bytes(),
        };
        let missing = match self.having(FastPaths::SECCOMP_CACHE).map(|cache| cache.filter(key)) {
            Some(Ok(program)) => return Ok((program, None)),
            Some(Err(missing)) => Some(missing),
            None => None,
        };
        Ok((plan::compile_seccomp(profile, kernel)?, missing))
    }

    /// Returns the loaded device program of the plan's cgroup. Returns `None` if the cgroup needs no such program, if
    /// there is no cache, or if loading fails; the later creation of the cgroup then reports the error.
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

    /// Opens the blank mount namespace.
    pub fn blank(&self) -> Option<OwnedFd> {
        self.having(FastPaths::BLANK_NAMESPACE)?.blank().ok()
    }
}
