//! Errors of the cgroup commands.

use report::Error;
use spec::word;
use std::fmt::Display;

/// Converts an error of the cgroup crate, for `map_err`. `report` has no `From` for it, because `lib/` does not depend
/// on `runtime/cgroup`.
pub(crate) fn of_cgroup(error: cgroup::Error) -> Error {
    match error {
        cgroup::Error::System(error) => error.into(),
        other => Error::other(other),
    }
}

/// Advises the known name that is most similar to a misspelt one, or else gives the other advice, if there is any.
pub(crate) fn suggest<W: AsRef<str> + Ord + Display>(
    error: Error,
    misspelt: &str,
    known: impl IntoIterator<Item = W>,
    otherwise: impl Into<Option<String>>,
) -> Error {
    let nearest = word::nearest(misspelt, known).map(|name| format!("did you mean {name}?"));
    error.advised(nearest.or_else(|| otherwise.into()).as_deref())
}
