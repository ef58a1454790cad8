//! Metadata, to the byte.

use model::{DataType, Signature, TensorSpec, VersionNumber};

use super::super::{ModelMetadata, extensions, render_metadata, render_server_metadata};
use crate::shared_memory::DISABLED;

#[test]
fn a_models_metadata() {
    let spec =
        |name: &str, data_type, shape: &[i64]| TensorSpec { name: name.into(), data_type, shape: shape.to_vec() };
    let signature = Signature {
        inputs: vec![spec("x", DataType::Fp32, &[-1, 128])],
        outputs: vec![spec("label", DataType::Bytes, &[-1]), spec("p", DataType::Fp16, &[])],
        optional_inputs: 0,
    };
    let versions: Vec<_> = [1, 12].into_iter().filter_map(VersionNumber::new).collect();
    let mut out = Vec::new();
    render_metadata(
        &mut out,
        &ModelMetadata {
            name: "fraud \"v3\"",
            versions: &versions,
            platform: "onnxruntime_onnx",
            signature: &signature,
        },
    );
    assert_eq!(
        String::from_utf8_lossy(&out),
        concat!(
            r#"{"name":"fraud \"v3\"","versions":["1","12"],"platform":"onnxruntime_onnx","#,
            r#""inputs":[{"name":"x","datatype":"FP32","shape":[-1,128]}],"#,
            r#""outputs":[{"name":"label","datatype":"BYTES","shape":[-1]},{"name":"p","datatype":"FP16","shape":[]}]}"#
        )
    );
}

#[test]
fn the_servers_metadata() {
    let mut out = Vec::new();
    render_server_metadata(&mut out, "airlock", "0.1.0", &extensions(&DISABLED));
    assert_eq!(
        String::from_utf8_lossy(&out),
        concat!(
            r#"{"name":"airlock","version":"0.1.0","extensions":"#,
            r#"["classification","model_repository","model_repository(unload_dependents)","schedule_policy","#,
            r#""model_configuration","binary_tensor_data","parameters","statistics","trace","logging"]}"#
        )
    );
}
