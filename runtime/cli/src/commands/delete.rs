//! `delete`: removes what a container leaves behind.

use container::{Container, Error, Store, Warn};

use super::layers;
use crate::definition::options::FORCE;
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let force = invocation.values.flag(&FORCE);
    let (id, store) = (invocation.id()?, invocation.store()?);
    match container(&store, id) {
        Ok(container) if container.has_layers() => {
            // Files in there may belong to other ids than the user's.
            container::enter_user_namespace(invocation.args, invocation.trace)?;
            Ok(container.delete(force, Warn(invocation.warn, invocation.tell))?)
        }
        Ok(container) => Ok(container.delete(force, Warn(invocation.warn, invocation.tell))?),
        Err(error) if error.is_not_found() => {
            // A create that was killed before it wrote its record may have left a directory.
            store.sweep(id)?;
            container::free_ids(&store, id, &layers::leases(invocation)?)?;
            if force { Ok(()) } else { Err(error.into()) }
        }
        Err(error) if error.is_damaged() && force => Ok(store.sweep(id)?),
        Err(error) => Err(error.into()),
    }
}

/// The container of that id, or of an id that begins so.
fn container(store: &Store, id: &str) -> Result<Container, Error> {
    match store.container(id) {
        Err(error) if error.is_not_found() => match store.complete(id)? {
            Some(id) => store.container(&id),
            None => Err(error),
        },
        found => found,
    }
}
