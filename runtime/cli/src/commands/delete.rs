//! `delete`: removes what a container leaves behind.

use container::Warn;

use super::layers;
use crate::definition::options::FORCE;
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let force = invocation.values.flag(&FORCE);
    let (id, store) = (invocation.id()?, invocation.store()?);
    match store.container(id) {
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
