/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The importer of the paper G10's inputs: the published figures of every model and batch size,
 * small networks whose tensors and launches can be counted by hand, and refusals, with the line.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "g10/import_g10.h"
#include "unit/cmocka_all.h"
#include "unit/g10_data.h"

struct figures {
	const char *model;
	uint32_t batch, tensors, workspaces;
	uint64_t global_bytes, total_bytes, ticks;
};

/* Tensors, workspaces, global bytes, all bytes and ideal cycles, as the published
 * artifact computes them. */
static const struct figures published[] = {
	{"BERT_Base", 128, 1463, 0, 9115529216, 79915048960, 7087159999},
	{"BERT_Base", 256, 1463, 0, 17823494144, 158958346240, 8742558777},
	{"BERT_Base", 384, 1463, 0, 26531459072, 238001643520, 10270977703},
	{"BERT_Base", 512, 1463, 0, 35239424000, 317044940800, 11799396628},
	{"BERT_Base", 640, 1463, 0, 43947388928, 396088238080, 14373809452},
	{"BERT_Base", 768, 1463, 0, 52655353856, 475131535360, 16948222288},
	{"BERT_Base", 1024, 1463, 0, 70071283712, 633218129920, 20928839947},
	{"Inceptionv3", 512, 1890, 281, 96358400, 283701899264, 64334907021},
	{"Inceptionv3", 768, 1890, 281, 96358400, 424245977088, 67755018354},
	{"Inceptionv3", 1024, 1890, 281, 96358400, 564790046720, 71175129706},
	{"Inceptionv3", 1152, 1890, 281, 96358400, 635062087680, 71557227747},
	{"Inceptionv3", 1280, 1890, 281, 96358400, 705334124544, 71939325757},
	{"Inceptionv3", 1536, 1890, 281, 96358400, 845878202368, 71633241480},
	{"Inceptionv3", 1792, 1890, 281, 96358400, 986422280192, 71327218061},
	{"ResNet152", 256, 2903, 463, 242307072, 246857703424, 127328819564},
	{"ResNet152", 512, 2903, 427, 242307072, 473087946752, 130102121477},
	{"ResNet152", 768, 2903, 427, 242307072, 704150429696, 131772813229},
	{"ResNet152", 1024, 2903, 427, 242307072, 935212916736, 133443504983},
	{"ResNet152", 1280, 2903, 427, 242307072, 1166275198976, 135107260924},
	{"ResNet152", 1536, 2903, 427, 242307072, 1397337481216, 136771016900},
};

/* Networks whose kernel times are not in this tree: launches, tensors and global
 * bytes, and all bytes of tensors and workspaces together. */
static const struct figures networks[] = {
	{"VIT", 256, 1561, 2, 3717746688, 39805452288, 1489},
	{"VIT", 512, 1561, 2, 7351373824, 79364464640, 1489},
	{"VIT", 768, 1561, 2, 10985005056, 118924607488, 1489},
	{"VIT", 1024, 1561, 2, 14618632192, 158483619840, 1489},
	{"VIT", 1280, 1561, 2, 18252263424, 198043762688, 1489},
	{"VIT", 1536, 1561, 2, 21885890560, 237602775040, 1489},
	{"SENet154", 256, 3744, 661, 1394003968, 498111893504, 2319},
	{"SENet154", 512, 3744, 661, 1394003968, 941174300672, 2319},
	{"SENet154", 768, 3744, 589, 1394003968, 1384236359680, 2319},
	{"SENet154", 1024, 3744, 597, 1394003968, 1837303939072, 2319},
};

static struct figures
figures_of(const struct sl_trace *trace)
{
	struct figures f = {0};

	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		const struct sl_tensor *tensor = &trace->tensors[t];

		f.total_bytes += tensor->size_bytes;
		if (tensor->kind == SL_TENSOR_WORKSPACE)
			f.workspaces++;
		else
			f.tensors++;
		if (tensor->kind == SL_TENSOR_GLOBAL)
			f.global_bytes += tensor->size_bytes;
	}
	for (uint32_t k = 0; k < trace->n_launches; k++)
		f.ticks += trace->launches[k].ticks;
	return f;
}

static struct sl_trace *
import(const char *model, uint32_t batch)
{
	struct sl_import_g10 request = {.directory = g10_directory(),
					.model = model,
					.batch = batch};
	struct sl_trace *trace = NULL;

	if (sl_trace_import_g10(&request, &trace))
		fail_msg("%s, batch %u: %s", model, batch, sluice_last_error());
	return trace;
}

static void
published_figures_are_reproduced_exactly(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		const struct figures *want = &published[i];
		struct sl_trace *trace = import(want->model, want->batch);
		struct figures got = figures_of(trace);

		print_message("%s, batch %u\n", want->model, want->batch);
		assert_int_equal(got.tensors, want->tensors);
		assert_int_equal(got.workspaces, want->workspaces);
		assert_int_equal(got.global_bytes, want->global_bytes);
		assert_int_equal(got.total_bytes, want->total_bytes);
		assert_int_equal(got.ticks, want->ticks);
		assert_int_equal(trace->clock_hz, 1200000000);
		assert_int_equal(trace->n_periods, 1);
		sl_trace_destroy(trace);
	}
}

static void
networks_without_times_have_the_published_tensors(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
		const struct figures *want = &networks[i];
		struct sl_import_g10 request = {.directory = g10_directory(),
						.model = want->model,
						.batch = want->batch};
		struct sl_trace *trace;
		struct figures got;

		assert_int_equal(sl_trace_import_g10_net(&request, &trace), 0);
		got = figures_of(trace);
		assert_int_equal(trace->n_launches, want->ticks);
		assert_int_equal(got.ticks, want->ticks); /* of 1 each */
		assert_int_equal(got.tensors, want->tensors);
		assert_int_equal(got.workspaces, 0);
		assert_int_equal(got.global_bytes, want->global_bytes);
		/* What is missing is the workspaces: whole pages, at least one each. */
		assert_true(got.total_bytes + want->workspaces * 4096ul <= want->total_bytes);
		assert_int_equal((want->total_bytes - got.total_bytes) % 4096, 0);
		sl_trace_destroy(trace);
	}
}

static void
fault_times_never_fall(void **state)
{
	struct sl_trace *trace = import("Inceptionv3", 512);
	uint32_t raised = 0;

	(void)state;
	for (uint32_t k = 0; k < trace->n_launches; k++) {
		const struct sl_trace_launch *launch = &trace->launches[k];

		assert_true(launch->ticks <= launch->fault_output_ticks);
		assert_true(launch->fault_output_ticks <= launch->fault_all_ticks);
		raised += launch->fault_output_ticks == launch->fault_all_ticks;
	}
	assert_true(raised > 0); /* the file does have such kernels */
	sl_trace_destroy(trace);
}

static void
loss_follows_the_forward_launches(void **state)
{
	static const struct {
		const char *model;
		uint32_t batch, n_forward;
	} rows[] = {{"BERT_Base", 128, 477},
		    {"Inceptionv3", 512, 314},
		    {"ResNet152", 256, 415}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sl_trace *trace = import(rows[i].model, rows[i].batch);

		assert_int_equal(trace->n_forward, rows[i].n_forward);
		assert_string_equal(sl_trace_name(trace,
						  trace->launches[trace->n_forward].name),
				    "make_loss");
		sl_trace_destroy(trace);
	}
}

static void
workspaces_come_last_and_are_scratch_of_one_launch(void **state)
{
	struct sl_trace *trace = import("Inceptionv3", 512);
	uint32_t next = 1890;

	(void)state;
	for (uint32_t k = 0; k < trace->n_launches; k++)
		for (uint32_t i = 0; i < trace->launches[k].n_uses; i++) {
			const struct sl_trace_use *use =
				&trace->uses[trace->launches[k].first_use + i];

			assert_int_equal(use->intent == SLUICE_USE_SCRATCH,
					 use->tensor >= 1890);
			if (use->tensor >= 1890) {
				assert_int_equal(use->tensor, next);
				assert_int_equal(trace->tensors[next].kind,
						 SL_TENSOR_WORKSPACE);
				next++;
			}
		}
	assert_int_equal(next, trace->n_tensors);
	sl_trace_destroy(trace);
}

/* ---- networks small enough to count ---- */

static const char small_net[] =
	"Net(\n"
	"  (conv): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), "
	"bias=False)\n"
	"  (relu): ReLU(inplace=True)\n"
	"  (pool): AdaptiveAvgPool2d(output_size=(1, 1))\n"
	"  (fc): Linear(in_features=8, out_features=10, bias=True)\n"
	")\n";

static struct sl_trace *
build(const char *text, enum sl_g10_family family, uint32_t batch, uint32_t hw)
{
	struct sl_g10_net net;
	struct sl_trace *trace;

	assert_int_equal(sl_trace_create(1000, &trace), 0);
	if (sl_g10_net_parse(text, strlen(text), "text", family, &net))
		fail_msg("%s", sluice_last_error());
	if (sl_g10_cnn_build(&net, "text", batch, hw, hw, trace))
		fail_msg("%s", sluice_last_error());
	sl_g10_net_fini(&net);
	assert_int_equal(sl_trace_check(trace), 0);
	return trace;
}

/* The launch's name and its uses, "NAME 1r 2w 3rw". */
static const char *
launch_text(const struct sl_trace *trace, uint32_t k)
{
	static const char *const words[] = {"r", "p", "rw", "w", "s"};
	static char text[512];
	const struct sl_trace_launch *launch = &trace->launches[k];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s",
				    sl_trace_name(trace, launch->name));

	for (uint32_t i = 0; i < launch->n_uses; i++) {
		const struct sl_trace_use *use = &trace->uses[launch->first_use + i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, " %u%s", use->tensor,
				      words[use->intent]);
	}
	return text;
}

static void
small_network_comes_out_as_counted_by_hand(void **state)
{
	static const char *const launches[] = {
		"load_data 0w",
		"conv0.forward 0r 1w 2r",
		"relu1.forward 1rw",
		"avgpool2.forward 1r 6w",
		"linear3.forward 6r 8r 9w 12r",
		"make_loss 9r 14w",
		"linear3.backward_bias 13w 14r",
		"linear3.apply_bias 12rw 13r",
		"linear3.backward_weight 6r 11w 14r",
		"linear3.backward_input 8r 10w 14r",
		"linear3.apply_weight 8rw 11r",
		"avgpool2.backward 1r 7w 10r",
		"relu1.backward 1r 5w 7r",
		"conv0.backward_weight 0r 3w 5r",
		"conv0.backward_input 2r 4w 5r",
		"conv0.apply_weight 2rw 3r",
	};
	struct sl_trace *trace = build(small_net, SL_G10_PLAIN, 100, 32);

	(void)state;
	assert_int_equal(trace->n_tensors, 15);
	assert_int_equal(trace->n_forward, 5);
	assert_int_equal(trace->n_launches, sizeof(launches) / sizeof(launches[0]));
	for (uint32_t k = 0; k < trace->n_launches; k++)
		assert_string_equal(launch_text(trace, k), launches[k]);
	/* 100 x 3 x 32 x 32 x 4 bytes; 8 x 3 x 3 x 3 x 4 in one page. */
	assert_int_equal(trace->tensors[0].size_bytes, 1228800);
	assert_int_equal(trace->tensors[1].size_bytes, 3276800);
	assert_int_equal(trace->tensors[2].size_bytes, 4096);
	assert_int_equal(trace->tensors[2].kind, SL_TENSOR_GLOBAL);
	assert_int_equal(trace->tensors[3].kind, SL_TENSOR_LOCAL);
	sl_trace_destroy(trace);
}

static const char residual_net[] =
	"Net(\n"
	"  (conv1): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, 1), bias=False)\n"
	"  (0): BasicBlock(\n" /* refused: an integer names a layer of a Sequential only */
	")\n";

#define CONV(name, in, out)               \
	"(" name "): Conv2d(" in ", " out \
	", kernel_size=(1, 1), stride=(1, 1), bias=False)\n"
#define NORM(name, c)                                                           \
	"(" name "): BatchNorm2d(" c ", eps=1e-05, momentum=0.1, affine=True, " \
	"track_running_stats=True)\n"
#define RELU(name) "(" name "): ReLU(inplace=True)\n"

static void
residual_blocks_join_their_input_or_their_side_branch(void **state)
{
	static const char text[] = "Net(" CONV(
		"conv", "3",
		"4") "(layer): Sequential("
		     "(0): BasicBlock(" CONV("conv1", "4", "4") NORM("bn1", "4")
			     RELU("relu") CONV("conv2", "4", "4")
				     NORM("bn2",
					  "4") ")"
					       "(1): BasicBlock(" CONV("conv1", "4", "8")
						       NORM("bn1", "8") RELU("relu")
							       CONV("conv2", "8", "8")
								       NORM("bn2", "8") "(downsample): Sequential("
											"(0): Conv2d(4, 8, kernel_size=(1, 1), stride=(1, 1), bias=False)" NORM(
												"1",
												"8") ")))" RELU("last") ")";
	struct sl_g10_net net;

	(void)state;
	assert_int_equal(sl_g10_net_parse(text, strlen(text), "text", SL_G10_RESNET, &net),
			 0);
	/* 0 conv, 1-5 block, 6 add, 7-11 block, 12-13 side branch, 14 add, 15 relu. */
	assert_int_equal(net.n_layers, 16);
	assert_int_equal(net.layers[6].type, SL_G10_ADD);
	assert_int_equal(net.layers[6].inputs[0], 0);
	assert_int_equal(net.layers[6].inputs[1], 5);
	assert_int_equal(net.layers[7].inputs[0], 6);
	assert_int_equal(net.layers[12].type, SL_G10_CONV);
	assert_int_equal(net.layers[12].inputs[0], 6);
	assert_int_equal(net.layers[14].type, SL_G10_ADD);
	assert_int_equal(net.layers[14].inputs[0], 11);
	assert_int_equal(net.layers[14].inputs[1], 13);
	assert_int_equal(net.layers[15].inputs[0], 14);
	sl_g10_net_fini(&net);
	/* The same text in a family that does not know the word is a plain chain, which
	 * then does not fit together: the side branch takes 4 channels and gets 8. */
	assert_int_equal(sl_g10_net_parse(text, strlen(text), "text", SL_G10_SENET, &net), 0);
	assert_int_equal(net.n_layers, 14);
	sl_g10_net_fini(&net);
}

static void
two_readers_of_a_layer_cost_a_launch_that_adds_their_gradients(void **state)
{
	static const char text[] = "Net(" CONV("conv", "3",
					       "4") "(block): BasicBlock(" CONV("conv1",
										"4", "4")
		NORM("bn1", "4") RELU("relu") CONV("conv2", "4", "4")
			NORM("bn2", "4") ")" RELU("last") ")";
	struct sl_trace *trace = build(text, SL_G10_RESNET, 2, 8);
	uint32_t found = 0;

	(void)state;
	for (uint32_t k = 0; k < trace->n_launches; k++) {
		const struct sl_trace_launch *launch = &trace->launches[k];

		if (strcmp(sl_trace_name(trace, launch->name), "conv0.add_gradients") != 0)
			continue;
		found++;
		/* conv1's gradient for its input takes up that of the addition, which is
		 * the one that the last ReLU holds. */
		assert_int_equal(launch->n_uses, 2);
		assert_string_equal(
			sl_trace_name(
				trace,
				trace->tensors[trace->uses[launch->first_use].tensor].name),
			"conv1.d_input");
		assert_int_equal(trace->uses[launch->first_use].intent,
				 SLUICE_USE_READ_WRITE);
		assert_string_equal(
			sl_trace_name(
				trace,
				trace->tensors[trace->uses[launch->first_use + 1].tensor].name),
			"relu7.d_input");
		assert_int_equal(trace->uses[launch->first_use + 1].intent, SLUICE_USE_READ);
	}
	assert_int_equal(found, 1);
	sl_trace_destroy(trace);
}

#define END "-------------------\n"

static const char small_ops[] = "10 Dot 2 9 1 2 99 6 2 6 5\n" END /* x(9) times weight 1 */
				"11 Add 2 10 2 2 99 5 2 99 5\n" END /* plus bias 2 */
				"12 SoftmaxBasic 1 11 2 99 5\n" END
				"13 SoftmaxBasic 2 11 12 2 99 5 1 99\n" END
				"14 SoftmaxBasic 1 13 2 99 5\n" END
				"15 SoftmaxBasic 2 13 14 2 99 5 1 99\n" END
				"16 Multiply 2 15 11 2 99 5 2 99 5\n" END; /* 11 has two readers */

static void
small_transformer_comes_out_as_counted_by_hand(void **state)
{
	static const char *const launches[] = {
		"Dot10.forward 0w 1r 2r",
		"Add11.forward 0r 4w 5r",
		"SoftmaxBasic15.forward 4r 8w",
		"Multiply16.forward 4r 8r 10w",
		"make_loss 10r 13w",
		"Multiply16.backward 4r 11w 13r",
		"Multiply16.backward 8r 12w 13r",
		"SoftmaxBasic15.backward 4r 9w 11r",
		"Add11.add_gradients 9rw 12r",
		"Add11.backward 6w 7w 9r",
		"Add11.apply 5rw 7r",
		"Dot10.backward_weight 1r 3w 6r",
		"Dot10.apply 2rw 3r",
	};
	struct sl_trace *trace;

	(void)state;
	assert_int_equal(sl_trace_create(1000, &trace), 0);
	if (sl_g10_ops_build(small_ops, strlen(small_ops), "text", 1000, 5, trace))
		fail_msg("%s", sluice_last_error());
	assert_int_equal(sl_trace_check(trace), 0);
	assert_int_equal(trace->n_tensors, 14);
	assert_int_equal(trace->n_forward, 4);
	assert_int_equal(trace->n_launches, sizeof(launches) / sizeof(launches[0]));
	for (uint32_t k = 0; k < trace->n_launches; k++)
		assert_string_equal(launch_text(trace, k), launches[k]);
	assert_int_equal(trace->tensors[1].size_bytes, 24576); /* 1000 x 6 x 4, in pages */
	assert_int_equal(trace->tensors[2].kind, SL_TENSOR_GLOBAL);
	assert_int_equal(trace->tensors[5].size_bytes, 20480); /* the bias has the batch */
	sl_trace_destroy(trace);
}

/* ---- what is refused ---- */

static void
assert_net_refused(const char *text, const char *message)
{
	struct sl_g10_net net = {0};
	struct sl_trace *trace;
	int rc = sl_g10_net_parse(text, strlen(text), "text", SL_G10_RESNET, &net);

	assert_int_equal(sl_trace_create(1, &trace), 0);
	if (!rc)
		rc = sl_g10_cnn_build(&net, "text", 4, 8, 8, trace);
	if (rc != -EINVAL || !strstr(sluice_last_error(), message))
		fail_msg("%d, \"%s\" has no \"%s\"", rc, sluice_last_error(), message);
	sl_trace_destroy(trace);
	sl_g10_net_fini(&net);
}

static void
wrong_networks_are_refused_with_their_line(void **state)
{
	char deep[4096] = "";

	(void)state;
	assert_net_refused("", "line 1");
	assert_net_refused("Net(", "the end of the file");
	assert_net_refused("Net()", "a layer of the block");
	assert_net_refused("Net(\n(a): ReLU(inplace=True))", "must be a Conv2d");
	assert_net_refused(residual_net, "line 3: expected a layer's name");
	assert_net_refused("Net(\n\n(a): Conv2d(3, 8))", "line 3: expected ,");
	assert_net_refused("Net(\n(a): Conv2d(3, 8, kernel_size=(1, 1), stride=(1, 1)))",
			   "another attribute");
	assert_net_refused("Net(\n(a): Conv2d(3, 99999999999, kernel_size=(1, 1)))",
			   "line 2: a number above");
	assert_net_refused("Net(\n" CONV("a", "3", "8") ") )", "line 3");
	assert_net_refused("Net(\n" CONV("a", "3", "8") CONV("b", "4", "8") ")",
			   "line 3: layer 1 (conv): its input has another number");
	assert_net_refused("Net((a): Conv2d(3, 8, kernel_size=(9, 1), stride=(1, 1), "
			   "bias=False))",
			   "larger than its input");
	assert_net_refused("Net((a): Conv2d(3, 8, kernel_size=(1, 1), stride=(0, 1), "
			   "bias=False))",
			   "a stride of 0");
	assert_net_refused(
		"Net((a): Conv2d(3, 2147483647, kernel_size=(1, 1), stride=(1, 1), "
		"bias=False)" CONV("b", "2147483647", "2147483647") ")",
		"more than 2^50");
	assert_net_refused("Net(" CONV("a", "3", "4") "(b): Bottleneck(" CONV("c", "4",
									      "4") "))",
			   "a Bottleneck with 1 children");
	assert_net_refused("Net((b): BasicBlock(" CONV("a", "3", "3") NORM("b", "3")
				   RELU("c") CONV("d", "3", "3") NORM("e", "3") "))",
			   "cannot be the first");
	for (int i = 0; i < 100; i++)
		strcat(deep, i ? "(a): Block(" : "Net(");
	assert_net_refused(deep, "inside each other");
}

static void
assert_ops_refused(const char *text, const char *message)
{
	struct sl_trace *trace;
	int rc;

	assert_int_equal(sl_trace_create(1, &trace), 0);
	rc = sl_g10_ops_build(text, strlen(text), "text", 4, 5, trace);
	if (rc != -EINVAL || !strstr(sluice_last_error(), message))
		fail_msg("%d, \"%s\" has no \"%s\"", rc, sluice_last_error(), message);
	sl_trace_destroy(trace);
}

static void
wrong_transformers_are_refused_with_their_line(void **state)
{
	(void)state;
	assert_ops_refused("", "no operations");
	assert_ops_refused("10 Dot 2 9 1", "line 1: the file ends");
	assert_ops_refused("10\nDott 2 9 1", "line 2: \"Dott\"");
	assert_ops_refused("10 Relu 1 9 1 4\n10 Relu 1 9 1 4\n",
			   "line 2: a record must end");
	assert_ops_refused("10 Relu 1 9 1 4 " END "10 Relu 1 9 1 4 " END,
			   "line 2: a second");
	assert_ops_refused("10 Relu 2 9 8 1 4 1 4 " END, "Relu with 2 inputs");
	assert_ops_refused("3 Relu 1 9 1 4 " END, "below the border");
	assert_ops_refused("10 SoftmaxBasic 1 9 1 4 " END, "ends inside the four");
	assert_ops_refused("10 Dot 2 8 9 1 4 1 4 " END, "one global input");
	assert_ops_refused("10 Relu 1 9 1 -4 " END, "\"-4\" is not a dimension");
	assert_ops_refused("10 Relu 1 9 1 0 " END, "a dimension is 0");
	assert_ops_refused("10 Relu 1 9 4 99999 99999 99999 99999 " END, "2^50");
	assert_ops_refused("10 Relu 1 9 1 4 " END "11 Relu 1 9 1 4 " END,
			   "line 1: nobody takes");
}

/* A directory with a network of one convolution (6 kernels) and the four files. */
struct files {
	char directory[64];
};

static void
file_put(const struct files *files, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", files->directory, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static const char good_times[] =
	"0 0.5 ms\n1 0.5 ms\n2 0.5 ms\n3 0.5 ms\n4 0.5 ms\n5 0.5 ms\n";
static const char good_workspaces[] = "0 0 B\n1 5000 B\n2 0 B\n3 0 B\n4 0 B\n5 1 B";

static void
files_init(struct files *files)
{
	static const char *const folders[] = {"frontend", "frontend/Nets", "results",
					      "results/N"};
	char path[256];

	snprintf(files->directory, sizeof(files->directory), "/tmp/test_import_g10.XXXXXX");
	assert_non_null(mkdtemp(files->directory));
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", files->directory, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	file_put(files, "frontend/Nets/N.txt", "N(" CONV("a", "3", "8") ")");
	file_put(files, "results/N/cudnn7.txt", good_times);
	file_put(files, "results/N/cudnn7InputPF.txt", good_times);
	file_put(files, "results/N/cudnn7PF.txt", good_times);
	file_put(files, "results/N/cudnn7Workspace.txt", good_workspaces);
}

static void
files_fini(const struct files *files)
{
	static const char *const names[] = {
		"frontend/Nets/N.txt",
		"results/N/cudnn7.txt",
		"results/N/cudnn7InputPF.txt",
		"results/N/cudnn7PF.txt",
		"results/N/cudnn7Workspace.txt",
		"results/N",
		"results",
		"frontend/Nets",
		"frontend",
		"",
	};
	char path[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", files->directory, names[i]);
		assert_int_equal(remove(path), 0);
	}
}

static int
files_import(const struct files *files, struct sl_trace **trace)
{
	struct sl_import_g10 request = {.directory = files->directory,
					.model = "N",
					.batch = 7,
					.family = "plain",
					.input_h = 8,
					.input_w = 8};

	return sl_trace_import_g10(&request, trace);
}

static void
own_networks_are_imported_by_their_options(void **state)
{
	struct files files;
	struct sl_trace *trace;

	(void)state;
	files_init(&files);
	if (files_import(&files, &trace))
		fail_msg("%s", sluice_last_error());
	assert_int_equal(trace->n_launches, 6);
	assert_int_equal(trace->launches[1].ticks, 600000);
	assert_int_equal(trace->tensors[trace->n_tensors - 2].size_bytes, 8192);
	assert_int_equal(trace->tensors[trace->n_tensors - 1].size_bytes, 4096);
	sl_trace_destroy(trace);
	files_fini(&files);
}

static void
wrong_kernel_files_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *name, *text, *message;
	} rows[] = {
		{"cudnn7.txt", "0 0.5 ms\n", "ends after 1 lines; the network has 6"},
		{"cudnn7.txt", "0 0.5 ms\n2 0.5 ms\n", "line 2: the kernel's number is \"2\""},
		{"cudnn7.txt", "0 -0.5 ms\n", "line 1: \"-0.5\" is not a number"},
		{"cudnn7.txt", "0 0.5 us\n", "the unit is \"us\""},
		{"cudnn7.txt", "0 0.0 ms\n", "a time of 0"},
		{"cudnn7.txt", "0 0.5 ms 7\n", "more than three fields"},
		{"cudnn7.txt", "0 0.5.5 ms\n", "is not a number"},
		{"cudnn7.txt", "0 9007199254740993 ms\n", "is not a number"},
		{"cudnn7PF.txt", "0 1 ms\n1 1 ms\n2 1 ms\n3 1 ms\n4 1 ms\n5 1 ms\n6 1 ms\n",
		 "goes on after line 6"},
		{"cudnn7Workspace.txt", "0 9223372036854775808 B\n", "not a number of bytes"},
	};
	struct files files;

	(void)state;
	files_init(&files);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sl_trace *trace = NULL;
		char name[64];
		int rc;

		snprintf(name, sizeof(name), "results/N/%s", rows[i].name);
		file_put(&files, name, rows[i].text);
		rc = files_import(&files, &trace);
		if (rc != -EINVAL || !strstr(sluice_last_error(), rows[i].message) ||
		    !strstr(sluice_last_error(), rows[i].name))
			fail_msg("%d: %s", rc, sluice_last_error());
		assert_null(trace);
		file_put(&files, name,
			 strstr(name, "Workspace") ? good_workspaces : good_times);
	}
	files_fini(&files);
}

static void
wrong_requests_are_refused(void **state)
{
	static const struct {
		struct sl_import_g10 request;
		int rc;
		const char *message;
	} rows[] = {
		{{.directory = "/", .model = "BERT_Base"}, -EINVAL, "a batch size of 0"},
		{{.directory = "/", .model = "a/b", .batch = 1}, -EINVAL, "not a model's name"},
		{{.directory = "/", .model = "Own", .batch = 1}, -EINVAL, "say its family"},
		{{.directory = "/", .model = "Own", .batch = 1},
		 -EINVAL,
		 "(BERT_Base, VIT, Inceptionv3, ResNet152, SENet154)"},
		{{.directory = "/", .model = "Resnet125", .batch = 1},
		 -EINVAL,
		 "did you mean ResNet152?"},
		{{.directory = "/", .model = "Own", .batch = 1, .family = "x"},
		 -EINVAL,
		 "no family \"x\""},
		{{.directory = "/", .model = "Own", .batch = 1, .family = "transformer"},
		 -EINVAL,
		 "border"},
		{{.directory = "/", .model = "Own", .batch = 1, .family = "resnet"},
		 -EINVAL,
		 "height and width"},
		{{.directory = "/nowhere", .model = "VIT", .batch = 1},
		 -ENOENT,
		 "/nowhere/frontend/Nets/VIT.txt"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sl_trace *trace = NULL;

		assert_int_equal(sl_trace_import_g10(&rows[i].request, &trace), rows[i].rc);
		if (!strstr(sluice_last_error(), rows[i].message))
			fail_msg("%s", sluice_last_error());
		assert_null(trace);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(published_figures_are_reproduced_exactly),
		T(networks_without_times_have_the_published_tensors),
		T(fault_times_never_fall),
		T(loss_follows_the_forward_launches),
		T(workspaces_come_last_and_are_scratch_of_one_launch),
		T(small_network_comes_out_as_counted_by_hand),
		T(residual_blocks_join_their_input_or_their_side_branch),
		T(two_readers_of_a_layer_cost_a_launch_that_adds_their_gradients),
		T(small_transformer_comes_out_as_counted_by_hand),
		T(wrong_networks_are_refused_with_their_line),
		T(wrong_transformers_are_refused_with_their_line),
		T(own_networks_are_imported_by_their_options),
		T(wrong_kernel_files_are_refused_with_their_line),
		T(wrong_requests_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
