//! The methods of creating init. If an attempt fails, and another method avoids the reason of the
//! failure, that method is tried next.
//!
//! | fallback | reason of the failure | alternative |
//! |---|---|---|
//! | [`beside_init`] | the cgroup accepts no processes, or was removed | init starts in the current cgroup of the container's init |
//! | [`by_itself`] | a seccomp filter refuses clone3(2), and clone(2) lacks CLONE_INTO_CGROUP | init moves itself to its cgroup |
//! | [`by_systemd`] | only the caller's systemd may move init there | init starts outside; systemd moves it |
//! | [`past_the_limit`] | the intermediate used up the cgroup's PID limit | the intermediate and init start outside the cgroup; the parent moves init |
//!
//! Each fallback is tried at most once, from top to bottom. The kernel checks the PID limit when a process forks, not
//! when a process is moved into the cgroup.

use alloc::format;

use cgroup::Cgroup;
use plan::step::Memory;
use rustix::io::Errno;

use super::attempt::{Attempt, AttemptError, Moved};
use super::clone::Made;
use super::{Parent, no_child};
use crate::Error;

/// Changes a failed attempt so that it may succeed; returns false if the fallback does not apply to this failure.
type Fallback = fn(&mut Parent<'_>, &mut Attempt, &AttemptError) -> Result<bool, Error>;

const FALLBACKS: [Fallback; 4] = [beside_init, by_itself, by_systemd, past_the_limit];

impl Parent<'_> {
    /// Creates init in the first way that works.
    pub(super) fn make_init(&mut self) -> Result<(Made, Attempt), Error> {
        let mut attempt = Attempt::of(self.plan).ok_or_else(no_child)?;
        if !attempt.into_cgroup {
            self.go_after_init(&mut attempt);
        }
        attempt.procs = match self.entrances.take() {
            Some(opened) => opened,
            None => self.open_entrances(&attempt)?,
        };
        let mut fallbacks = FALLBACKS.into_iter();
        loop {
            let error = match self.try_clone(&attempt) {
                Ok(made) => return Ok((made, attempt)),
                Err(error) => error,
            };
            loop {
                match fallbacks.next() {
                    Some(fallback) if fallback(self, &mut attempt, &error)? => break,
                    Some(_) => {}
                    None => return Err(self.in_words(&attempt, error)),
                }
            }
        }
    }

    /// Selects the current cgroup of the container's init if the plan's cgroup accepts no processes. Called if the new
    /// init will move itself, because the new init would learn too late that it cannot join the plan's cgroup.
    fn go_after_init(&mut self, attempt: &mut Attempt) {
        if self.follows_init() {
            // The limits of that cgroup are unknown, and may be too low for shared memory.
            attempt.memory = Memory::Copied;
        }
    }

    #[cold]
    fn in_words(&self, attempt: &Attempt, error: AttemptError) -> Error {
        let errno = match error {
            AttemptError::Other(error) => return error,
            AttemptError::Clone(errno) => errno,
        };
        let is_born_inside = attempt.born_in(self.cgroup.as_ref()).is_some();
        let place = self.cgroup.as_ref().and_then(Cgroup::unified_path);
        let object = match (errno, place) {
            (Errno::BUSY, Some(path)) if is_born_inside => return handing_down(path).into(),
            _ if attempt.moved == Moved::Everywhere => "intermediate".into(),
            (Errno::ACCESS, _) if is_born_inside => format!(
                "{:?} into its cgroup (this requires write access to cgroup.procs of the nearest \
                 common ancestor of it and the caller's cgroup)",
                attempt.at_birth()
            ),
            _ => format!("{:?}", attempt.at_birth()),
        };
        sys::Error::new("clone3", object, errno).into()
    }
}

/// Handles a cgroup that was removed, or that enables controllers for its children and so cannot contain processes
/// itself.
fn beside_init(
    parent: &mut Parent<'_>,
    attempt: &mut Attempt,
    error: &AttemptError,
) -> Result<bool, Error> {
    let is_closed =
        matches!(error, AttemptError::Clone(Errno::BUSY | Errno::OPNOTSUPP | Errno::NODEV));
    if !is_closed || attempt.born_in(parent.cgroup.as_ref()).is_none() {
        return Ok(false);
    }
    attempt.beside = parent.cgroup_of_init();
    if attempt.beside.is_some() {
        // The limits of that cgroup are unknown, and may be too low for shared memory.
        attempt.memory = Memory::Copied;
    }
    Ok(attempt.beside.is_some())
}

/// Handles a seccomp filter that refuses clone3(2). clone(2) is used instead. It cannot create a process in a given
/// cgroup, so init moves itself.
fn by_itself(
    parent: &mut Parent<'_>,
    attempt: &mut Attempt,
    error: &AttemptError,
) -> Result<bool, Error> {
    let is_refused = matches!(error, AttemptError::Clone(Errno::NOSYS | Errno::PERM));
    if !is_refused || attempt.born_in(parent.cgroup.as_ref()).is_none() {
        return Ok(false);
    }
    parent.is_not_born_inside = true;
    attempt.into_cgroup = false;
    parent.go_after_init(attempt);
    attempt.procs = parent.open_entrances(attempt)?;
    Ok(true)
}

/// Handles a caller without permission to move processes out of the session's cgroup: the user's
/// systemd moves init, if possible.
fn by_systemd(
    parent: &mut Parent<'_>,
    attempt: &mut Attempt,
    error: &AttemptError,
) -> Result<bool, Error> {
    let is_denied = matches!(error, AttemptError::Clone(Errno::ACCESS));
    let helps = is_denied && parent.cgroup.as_ref().is_some_and(Cgroup::is_of_user);
    if helps {
        attempt.moved = Moved::Unified;
    }
    Ok(helps)
}

/// Handles a cgroup whose PID limit allows the intermediate, but not init as well. Both start
/// outside the cgroup, and init is moved, because the PID limit does not apply to moved processes.
/// Such a start takes longer.
fn past_the_limit(
    parent: &mut Parent<'_>,
    attempt: &mut Attempt,
    error: &AttemptError,
) -> Result<bool, Error> {
    let is_crowded_out = matches!(
        error,
        AttemptError::Other(Error::Init { step, errno: Errno::AGAIN, .. }) if step == init::intermediate::CLONE
    );
    let helps = is_crowded_out && parent.may_move(attempt.intermediate);
    if helps {
        attempt.moved = Moved::Everywhere;
    }
    Ok(helps)
}

/// Returns the error for a cgroup that enables controllers for its children and so cannot contain processes. The text
/// begins with runc's words.
#[cold]
fn handing_down(path: &str) -> sys::Error {
    let object = format!(
        "into {path} (it delegates controllers to cgroups below it, so it cannot contain \
         processes: use another cgroupsPath, such as one below it, or remove the controllers from \
         its cgroup.subtree_control)"
    );
    sys::Error::new("unable to apply cgroup configuration: clone3", object, Errno::BUSY)
}
