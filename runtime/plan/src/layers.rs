//! A root filesystem that is assembled from layers, as steps of the parent.

use rootfs::{Mode, Recipe, Upper};

use crate::builder::Builder;
use crate::context::Context;
use crate::idmap;
use crate::namespaces::maps;
use crate::step::ParentStep;

/// Adds the steps that end with the root's tree, detached. Ids go through the mappings of the container's
/// user namespace, which does not exist before the clone: another one has the same.
pub fn compile(builder: &mut Builder, context: &Context<'_, '_>, recipe: &Recipe) {
    if recipe.mode == Mode::Copy {
        builder.parent(ParentStep::CopyLayers);
        return;
    }
    let user_namespace = recipe.root.map(|_| {
        let wanted = maps(&context.linux.uid_mappings, &context.linux.gid_mappings);
        idmap::made(builder, wanted)
    });
    builder.parent(ParentStep::MapLayers { user_namespace });
    if !recipe.mode.is_attached() {
        builder.parent(ParentStep::OpenLayers);
    }
    if recipe.upper != Upper::None {
        builder.parent(ParentStep::MakeUpper);
    }
    builder.parent(ParentStep::AssembleRootfs);
    if recipe.mode.is_attached() {
        builder.parent(ParentStep::DetachLayers);
    }
}
