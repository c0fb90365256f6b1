//! A root filesystem that is assembled from layers, as steps of the host actor.

use rootfs::{Mode, Recipe, Upper};

use crate::builder::Builder;
use crate::context::Context;
use crate::idmap;
use crate::namespaces::maps;
use crate::step::HostStep;

/// Adds the steps that end with the root's tree, detached. Ids go through the mappings of the container's
/// user namespace, which does not exist before the clone: another one has the same.
pub fn compile(builder: &mut Builder, context: &Context<'_, '_>, recipe: &Recipe) {
    if recipe.mode == Mode::Copy {
        builder.host(HostStep::CopyLayers);
        return;
    }
    let user_namespace = recipe.root.map(|_| {
        let wanted = maps(&context.linux.uid_mappings, &context.linux.gid_mappings);
        idmap::made(builder, wanted)
    });
    builder.host(HostStep::MapLayers { user_namespace });
    if !recipe.mode.is_attached() {
        builder.host(HostStep::OpenLayers);
    }
    if recipe.upper != Upper::None {
        builder.host(HostStep::MakeUpper);
    }
    builder.host(HostStep::AssembleRootfs);
    if recipe.mode.is_attached() {
        builder.host(HostStep::DetachLayers);
    }
}
