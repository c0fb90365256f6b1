//! `delete`: removes what a container leaves behind.

use alloc::string::{String, ToString};

use container::{Error, Removed, Store, Warn};

use super::layers;
use crate::definition::options::FORCE;
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let force = invocation.values.flag(&FORCE);
    let store = invocation.store()?;
    let id = &whole_id(&store, invocation.id()?)?;
    if store.container(id).is_ok_and(|container| container.has_layers()) {
        // Files in there may belong to other ids than the user's.
        container::enter_user_namespace(invocation.args, invocation.trace)?;
    }
    match store.delete(id, force, Warn(invocation.warn, invocation.tell))? {
        Removed::Remains(error) if error.is_not_found() => {
            container::free_ids(&store, id, &layers::leases(invocation)?)?;
            if force { Ok(()) } else { Err(error.into()) }
        }
        Removed::Container(_) | Removed::Remains(_) => Ok(()),
    }
}

/// Completes the beginning of an id; returns every other text as it is.
fn whole_id(store: &Store, id: &str) -> Result<String, Error> {
    match store.container(id) {
        Err(error) if error.is_not_found() => {
            Ok(store.complete(id)?.unwrap_or_else(|| id.to_string()))
        }
        _ => Ok(id.to_string()),
    }
}
