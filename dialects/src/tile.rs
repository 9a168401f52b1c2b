//! Dialect `tile`.

use melior::ir::OperationRef;

/// Verifies `tile.<name>`.
pub(crate) fn verify(_op: OperationRef<'_, '_>, _name: &str) -> Result<(), String> {
    Ok(())
}

/// Verifies a whole program.
pub(crate) fn verify_program(_op: OperationRef<'_, '_>) -> Result<(), String> {
    Ok(())
}
