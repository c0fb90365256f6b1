//! `delete`: removes a container's state, cgroup and files after its exit.

use container::Removed;

use super::*;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    delete(invocation, invocation.id()?)
}

/// Removes one container.
pub fn delete(invocation: &Invocation<'_>, id: &str) -> Result<(), Failure> {
    let force = invocation.values.flag(&FORCE);
    let store = invocation.store()?;
    // With --force only the full id matches: engines call `delete --force` before they create a container. That call
    // must not delete another container whose id only begins with this text.
    let found = if force { store.container(id) } else { store.by_beginning(id) };
    if found.as_ref().is_ok_and(container::Container::has_layers) {
        // Files in the container's upper layer may have owners other than the calling user.
        container::enter_user_namespace(invocation.args, invocation.trace)?;
    }
    match store.delete_found(id, found, force, invocation.warn)? {
        Removed::Remains(error) if error.is_not_found() => {
            container::free_ids(&store, id, &layers::leases(invocation)?)?;
            if force { Ok(()) } else { Err(error.into()) }
        }
        Removed::Container(_) | Removed::Remains(_) => Ok(()),
    }
}
