//! Errors of the runtime's cgroup crate as errors of this program.

use report::Error;

/// Converts an error of the cgroup crate, for `map_err`. `report` has no `From` for it, because `lib/` does not depend
/// on `runtime/cgroup`.
pub(crate) fn of_cgroup(error: cgroup::Error) -> Error {
    match error {
        cgroup::Error::System(error) => error.into(),
        other => Error::other(other),
    }
}
