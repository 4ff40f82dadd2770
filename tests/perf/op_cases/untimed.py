# SPDX-License-Identifier: Apache-2.0
"""Ops that have no case, by regular expressions of their names, and why."""

UNTIMED = {
    r"Const|Placeholder.*|_Arg|_Retval|_Host(Send|Recv)|_(Send|Recv)|Identity(N)?|StopGradient|PreventGradient|EnsureShape|GuaranteeConst|NoOp|ControlTrigger|Timestamp|ToBool|"
    r"Reshape|ExpandDims|Squeeze|QuantizedReshape|Shape(N)?|Rank|Size|VariableShape|ConcatOffset|Broadcast(Gradient)?Args|DataFormat.*|StatelessRandomGetAlg|CudnnRNNParamsSize|"
    r"(Deep)?Copy(Host)?|ShardedFilename": "nothing is computed but a few numbers or a view: a step of it is a step of nothing, which engine_bench times",
    r"Abort|Assert|Print(V2)?|Debug.*": "for its message or its end, not for its speed",
    r"If|Case|While|Stateless(If|Case|While)|.*PartitionedCall|RemoteCall|SymbolicGradient|(Ref)?(Enter|Exit|Merge|NextIteration|Switch|Identity)|_?SwitchN|LoopCond": "control flow, which the "
    "executor does: engine_bench times loops and branches",
    r".*Queue.*|.*Barrier.*|(Ordered)?Map(Stage|Unstage|UnstageNoKey|Peek|Clear|Size|IncompleteSize)|Stage|Unstage|Stage(Peek|Clear|Size)|.*Mutex.*|.*Accumulator.*|CountUpTo|ResourceCountUpTo": "its "
    "steps wait for each other and leave something behind: the same step cannot be repeated",
    r"Stack.*V2|TensorArray.*|TemporaryVariable|DestroyTemporaryVariable": "ways of a loop, of which several ops in a row belong together",
    r"VarHandleOp|Variable(V2)?|VarIsInitializedOp|IsVariableInitialized|DestroyResourceOp|DisableCopyOnRead|EmptyTensorList|TensorList(ElementShape|Length|PopBack|Reserve|Resize|ScatterIntoExistingList|Split)|"
    r"Optional.*|Anonymous.*Table.*|(Mutable)?(Dense)?HashTable(OfTensors)?V2|InitializeTable(FromTextFile)?V2|LookupTable(Import|Remove|Size)V2": "makes, names or ends a resource, or says "
    "something of it, once; LookupTableInsertV2 and the lists timed do the same work",
    r".*Reader.*|ReadFile|WriteFile|MatchingFiles|Save.*|Restore.*|MergeV2Checkpoints": "files: records_bench and pipelines.py time reading",
    r".*Summary.*|ImportEvent": "writes files for TensorBoard",
    r".*Dataset.*|.*Iterator.*|.*Memory(Cache)|.*SeedGenerator|StatsAggregator.*|.*ThreadPoolHandle|.*PyFunc.*|DummyIterationCounter": "pipelines, which pipelines.py times",
    r".*Collective.*|Nccl.*": "between devices: collective_bench times them",
    r"(Add|Take)(Many)?Sparse(To|From)TensorsMap|TakeManySparseFromTensorsMap": "keeps what it is given until another op takes it",
    r"CudnnRNN.*|_Fused.*|MaxPoolGradGradWithArgmax|ExperimentalStats.*": "TensorFlow has it on GPUs alone, or in graphs that it rewrote itself",
    r"Segment(Sum|Max|Min|Prod)V2|CTCLossV2": "TensorFlow has no kernel for CPUs",
    r"BatchNormWithGlobalNormalization(Grad)?|MatrixExponential": "TensorFlow refuses it in graphs of the last ten years",
    r"RaggedTensor(FromVariant|ToVariantGradient)": "takes variants apart that RaggedTensorToVariant made, which is timed",
    r"DecodeGif": "TensorFlow writes none, so that there would have to be a file",
}
