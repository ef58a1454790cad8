//! From requests to one batch and back: the layout of a batch's inputs, and the cut of its outputs into what belongs to
//! each request. Outputs are checked against the signature first, since a cut of a wrong tensor would hand one
//! request's rows to another.

use model::{AssembledBatch, BatchLayout, BatchOutput, EngineError, Signature, Tensor, display_shape};

/// Writes the full shapes of a batch whose first request brings `inputs`; `rows` is `None` where the model does not
/// batch. What `layout` held before is reused.
pub(crate) fn write_layout(layout: &mut BatchLayout, inputs: &[Tensor], rows: Option<u64>) {
    layout.rows = rows;
    layout.shapes.resize_with(inputs.len(), Vec::new);
    for (shape, input) in layout.shapes.iter_mut().zip(inputs) {
        shape.clear();
        shape.extend_from_slice(input.shape());
        if let (Some(rows), Some(first)) = (rows, shape.first_mut()) {
            *first = rows;
        }
    }
}

/// The outputs of a batch of `rows` rows, if they fit the signature and the batch. `rows` is `None` where the model does
/// not batch: there is nothing to compare then.
pub(crate) fn check(
    output: BatchOutput,
    signature: &Signature,
    rows: Option<u64>,
    assembled: Option<&AssembledBatch>,
) -> Result<Vec<Tensor>, EngineError> {
    let tensors = output.tensors;
    if tensors.len() != signature.outputs.len() {
        return Err(EngineError::Run(format!(
            "the engine returned {} outputs, the model's signature has {}",
            tensors.len(),
            signature.outputs.len()
        )));
    }
    if let Some(rows) = rows {
        check_rows(&tensors, rows, assembled)?;
    }
    assembled.map_or(Ok(()), |assembled| assembled.check(&tensors))?;
    Ok(tensors)
}

/// Puts the outputs of a request's pieces together, in order: the way back from
/// [`split_tensors`](model::split_tensors), at one copy per output.
pub(crate) fn join(pieces: Vec<Vec<Tensor>>) -> Result<Vec<Tensor>, EngineError> {
    let mut pieces: Vec<_> = pieces.into_iter().map(Vec::into_iter).collect();
    let mut outputs = Vec::new();
    loop {
        let mut parts = pieces.iter_mut().filter_map(Iterator::next);
        let Some(first) = parts.next() else { return Ok(outputs) };
        let later: Vec<Tensor> = parts.collect();
        outputs.push(first.join_rows(&later).map_err(|error| EngineError::Run(error.to_string()))?);
    }
}

/// Whether a model has a batch dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batches {
    /// The first dimension counts rows.
    Rows,
    /// Requests run alone.
    Nothing,
}

fn check_rows(tensors: &[Tensor], rows: u64, assembled: Option<&AssembledBatch>) -> Result<(), EngineError> {
    let has_rows = |output| assembled.is_none_or(|assembled| assembled.has_rows(output));
    let is_wrong = |&(output, tensor): &(usize, &Tensor)| tensor.shape().first() != Some(&rows) && has_rows(output);
    match tensors.iter().enumerate().find(is_wrong) {
        None => Ok(()),
        Some((_, wrong)) => Err(EngineError::Output {
            output: wrong.name().to_string(),
            expected: format!("one row per input row, {rows} in this batch"),
            got: display_shape(wrong.shape()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use model::testing::{fake_input, fake_signature};
    use model::{split_outputs, split_tensors};

    use super::*;

    fn output(rows: u64) -> BatchOutput {
        BatchOutput { tensors: vec![fake_input(rows, 2, 7)] }
    }

    #[test]
    fn outputs_are_cut_by_rows() {
        let checked = check(output(3), &fake_signature(), Some(3), None).expect("3 rows");
        let cut = split_outputs(checked, &[1, 2]);
        let shapes: Vec<_> = cut.iter().map(|tensors| tensors[0].shape().to_vec()).collect();
        assert_eq!(shapes, [[1, 2], [2, 2]]);
    }

    #[test]
    fn pieces_are_put_together_output_by_output() {
        let whole = vec![fake_input(3, 2, 7), fake_input(3, 1, 9)];
        for rows in [&[3][..], &[2, 1], &[1, 1, 1]] {
            assert_eq!(join(split_tensors(&whole, rows).collect()).as_ref(), Ok(&whole), "{rows:?}");
        }
        assert_eq!(join(vec![Vec::new(), Vec::new()]), Ok(Vec::new()), "a model without outputs");
    }

    #[test]
    fn outputs_that_do_not_fit_the_batch_fail_it() {
        let error = check(output(2), &fake_signature(), Some(3), None).expect_err("2 rows for 3");
        assert_eq!(
            error.to_string(),
            "output 'x' of the model is [2,2], but its signature says one row per input row, 3 in this batch"
        );
        let none = BatchOutput { tensors: Vec::new() };
        let error = check(none, &fake_signature(), Some(1), None).expect_err("no output");
        assert_eq!(
            error.to_string(),
            "running the model failed: the engine returned 0 outputs, the model's signature has 1"
        );
        assert!(check(output(9), &fake_signature(), None, None).is_ok(), "no batch dimension to compare");
    }

    #[test]
    fn a_layout_counts_all_rows_and_forgets_the_batch_before() {
        let mut layout = BatchLayout { shapes: vec![vec![9, 9, 9], vec![1]], ..BatchLayout::default() };
        write_layout(&mut layout, &[fake_input(1, 5, 0)], Some(8));
        assert_eq!((&layout.shapes[..], layout.rows), (&[vec![8, 5]][..], Some(8)));
        write_layout(&mut layout, &[fake_input(2, 5, 0)], None);
        assert_eq!((&layout.shapes[..], layout.rows), (&[vec![2, 5]][..], None));
    }
}
