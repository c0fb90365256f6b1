//! `delete`: removes what a container leaves behind.

use container::{Removed, Warn};

use super::layers;
use crate::definition::options::FORCE;
use crate::failure::Failure;
use crate::invocation::Invocation;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let force = invocation.values.flag(&FORCE);
    let (id, store) = (invocation.id()?, invocation.store()?);
    match store.delete(id, force, Warn(invocation.warn, invocation.tell))? {
        Removed::Remains(error) if error.is_not_found() => {
            container::free_ids(&store, id, &layers::leases(invocation)?)?;
            if force { Ok(()) } else { Err(error.into()) }
        }
        Removed::Container(_) | Removed::Remains(_) => Ok(()),
    }
}
