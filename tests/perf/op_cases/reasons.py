# SPDX-License-Identifier: Apache-2.0
"""Why a case is slower than TensorFlow's, found by reading the kernel or by timing it: by regular expressions of the
cases' names, the first that matches."""

_VIEW = "TensorFlow gives a view of the input, here rows are copied"
_DOUBLE = "computed in double, and as a series for each number; TensorFlow has polynomials in float"
_PRECISE = (
    "compiled for double alone and rounded once (the compiler takes minutes for it), TensorFlow computes in float"
)
_SCALAR_COMPLEX = "the library's functions of complex numbers, called for each number, which mind infinities; TensorFlow has vectors of them"
_PARTS = "decomposed into ops, each of which passes over the tensor"
_SORT = "a sort by comparisons of indices, of elements that are mostly in order already; TensorFlow's groups follow the given order"
_SETS = "members are sorted and compared through a switch over their type for each comparison; TensorFlow fills hash sets of one type"
_BYTES = "keys are found by their bytes, as strings in a map; TensorFlow's tables have the key's type"
_CHECKS = "indices are checked to be inside, in order and distinct, one by one and on one thread"
_ONE_BY_ONE = "a row of one element costs a call and a check each; rows of many are as fast as TensorFlow's"
_LIBMVEC = "glibc's vector function, exact to 4 units; TensorFlow has a shorter polynomial"
_MEMORY = "both sides wait for memory; on a machine with other work the ratio goes either way from run to run"
_ONEDNN = "oneDNN 2.6 here and 3.x there, at 80 to 90 % of what a core multiplies"
_ASTRAY = "on one thread at least as fast; with two, on two cores that others use too, the ratio goes either way from run to run"
_LATER = "not looked into yet"

REASONS = {
    r"Unpack.*|Split, rows": _VIEW,
    r"AssignVariableOp|Assign": "the value is copied into the variable; TensorFlow lets the variable share it",
    r"Dawsn|Fresnel.*|Expint|Spence": _DOUBLE,
    r"Erfinv": "a guess in double and two of Newton's steps with erf, right to the last digit; TensorFlow has one rational function in float",
    r"Erfc|Erf|Erf, double|Acos|Acosh|Asin|Atan|Atan2|Tanh|Tanh, double|Tan|Sinh|Cosh|Exp, double": _LIBMVEC,
    r"Rsqrt": "a square root and a division, each rounded as it should be; TensorFlow has the processor's estimate and one step of Newton's",
    r"(RealDiv|Mul|Exp|Sqrt|Log|Tanh), complex": _SCALAR_COMPLEX,
    r"ApproximateEqual|FakeQuant.*|CholeskyGrad|SelfAdjointEig": _PARTS,
    r"FFT, lines of a prime": "Bluestein's convolution in double, a line at a time",
    r"I?R?FFT.*": "in double, eight lines at once; TensorFlow transforms floats as floats, sixteen in a register",
    r"Svd.*|SelfAdjointEigV2.*|MatrixLogarithm|MatrixSquareRoot|MatrixSolveLs, orthogonal|Eig": _PRECISE,
    r"(MatrixInverse|MatrixDeterminant|LogMatrixDeterminant|Lu|Qr|Cholesky|MatrixSolve|MatrixTriangularSolve|MatrixSolveLs).*": "Eigen's on both sides, here compiled for any x86-64 "
    "and not for the processor's level",
    r"Tridiagonal.*|BandedTriangularSolve": "row after row of the right side, which is short, by Eigen's expressions",
    r"MatMul, int32": "sums wrap, as unsigned integers do, of which Eigen 3.4 has no vectors",
    r"MatMul, complex": "by its definition, a row of the right side at a time; TensorFlow has Eigen's blocks",
    r"MatMul.*|BatchMatMul.*|Conv2D.*|Conv, 3x3": _ONEDNN,
    r"QuantizeV2, by channels": "a channel's bounds become its scale again for each element, where channels are the last dim",
    r"QuantizedConv2D": "by its definition; TensorFlow multiplies patches with gemmlowp",
    r"AsString.*": "a call of snprintf with a format for each number; TensorFlow has its own writers",
    r"LookupTable.*": _BYTES,
    r".*SetOperation.*|SetSize": _SETS,
    r"SparseReduce.*|SparseSoftmax|SparseReorder": _SORT,
    r"SparseAdd.*|SparseSparse.*|SparseBincount|SparseCountSparseOutput": _CHECKS,
    r"UnsortedSegmentSum, single elements|RaggedTensorToTensor": _ONE_BY_ONE,
    r"ExtractGlimpse.*": "noise around the picture is drawn four numbers at a time, of uniform noise as of none",
    r"ResizeBilinear, of 3 channels": "the three channels of a pixel are a loop of three; TensorFlow has vectors of four for them",
    r"LSTMBlockCell.*|BlockLSTM.*": "the step's product goes through Eigen's blocks, which are packed anew in each step",
    r"(LearnedUnigram|ThreadUnsafeUnigram)CandidateSampler": "what was learned lies in a map of nodes that counts against the step's memory",
    r"UniformCandidateSampler.*|LogUniformCandidateSampler.*": "drawn classes are told apart by an unordered_set",
    r"HistogramFixedWidth": "places are found in double, and counted on one thread",
    r"RaggedRange": "each row's size is found twice, element by element",
    r"DepthwiseConv2dNativeBackpropFilter": "for each tap of the filter the whole picture is passed over",
    r"UnicodeScript": "a call of ICU for each character, through the frame's pointers",
    r"(Dense|Ragged)CountSparseOutput": "values are put into bins row by row, and rows of ragged tensors are searched for by halving",
    r"(Max|Min|Sum|Mean), .*|AddN, of 4": _MEMORY,
    r"EuclideanNorm.*": "decomposed into squares, sums and roots, each of which passes over the tensor",
    r"SparseMatMul.*": "multiplied as dense matrices; TensorFlow leaves out the zeros, which 19 of 20 elements are",
    r"Conv3D.*": "Eigen's product takes two thirds of the time, and making and packing the patches most of the rest; TensorFlow makes none",
    r"BesselI0e, double": "Eigen 3.4 has no vectors of doubles for it under AVX-512, so that each number goes alone",
    r"StringFormat": "snprintf writes each number with few digits, it is read back, and written again where that is another one: half of the time",
    r"SerializeManySparse": "each row is a tensor of its own first, in memory that the step takes and gives back (half of the time), and is written byte by byte",
    r"RaggedTensorToVariant, by rows": "each row's buffer counts against the step's memory and has its own reference count: most of the time makes and releases them",
    r"StringLower.*|StringUpper.*": "ICU takes 56 % of the time, to turn each text into UTF-16 and back; a fifth goes to memory for each text that counts against the step's",
    r"Angle": "glibc's atan2f for each number on both sides (95 % of the time); the ratio goes either way from run to run",
    r"InvertPermutation": "places are anywhere in memory, on both sides; checked to be free before each is written",
    r"AvgPool3D, 3x3x3, stride 1": "27 additions of vectors of 16 channels for each result; neighbouring windows share none of them",
    r"StringToNumber.*|StringSplitV2, at white space": "a third of the time was spent on searching for white space, byte by byte; that was mended after this was measured",
    r"InTopK.*": "the row was passed over to its end where k larger ones had been found already; that was mended after this was measured",
    r"SparseFillEmptyRows": "where there are no empty rows all is copied; TensorFlow hands on its inputs",
    r"UniqueV2.*|UniqueWithCountsV2": "elements are found in a table in one pass (45 % of the time), and numbered in another (30 %)",
    r"Unique, texts": "texts are found by an unordered_map, which allocates an entry for each that is new",
    r"StringToHashBucket": "MurmurHash64A text by text on both sides, through cells whose offsets are added first",
    r"Dilation2DBackpropInput": "windows are compared 16 channels at once, and then each channel's gradient goes to a place of its own, one by one",
    r"AvgPool|BitwiseOr|CropAndResizeGradImage|GatherV2, single elements|ScaleAndTranslate|PopulationCount.*|FractionalMaxPoolGrad|BroadcastTo|Tile, a column|Einsum.*|GatherNd|EncodeWav|"
    r"Ndtri|Mod|SpaceToBatchND|ScaleAndTranslateGrad": _ASTRAY,
    r"DynamicPartition, single elements": "measured beside other work: medium 1.5 to 4 times TensorFlow's speed, large between 0.6 and 0.7; each element waits for its output's end",
    r"Transpose, NCHW to NHWC": "tiles of 16 x 16 go through registers (two thirds of the time); beyond the cache rows of 64 channels wait for memory",
    r"SoftplusGrad|QuantizeV2, MIN_FIRST": "faster than TensorFlow's where all stays in the cache; beyond, all of the time is in the loop, which waits for memory",
    r"LogicalNot|.*LeakyRelu.*|IsInf|FloorDiv.*|FloorMod.*|Truncate.*|Quantize.*|Cast, bool to float|.*Apply(Ftrl|FtrlV2|PowerSign)|Bitcast.*|Roll.*|Dilation.*|.*, half": "several times as fast as at "
    "first; what is left was not looked into",
    r".*": _LATER,
}
