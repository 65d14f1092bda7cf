/* Calls kernels of a library that was compiled ahead of time (see build.py), and says what the processor can do.

   A library has two symbols: `crown_stamp`, a text, and `crown_entries`, an array that ends with an empty name. An entry
   takes the words of all arguments one after the other (an array is its sizes, its address and its strides, as Numba
   hands it on), a place for the result, and a place for the exception. It returns 0 if there is none.

   Arrays are read through the fields of NumPy's arrays: the buffer protocol takes 0.1 us for each of them. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <numpy/arrayobject.h>

typedef int32_t (*Entry)(const int64_t *words, void *result, void **raised);

typedef struct {
    const char *name, *parameters, *result;
    Entry entry;
} Listed;

typedef struct {
    const char *pickled;
    int32_t size;
} Raised; /* The beginning of Numba's structure. */

#define MOST_PARAMETERS 32
#define MOST_WORDS (9 * MOST_PARAMETERS)
#define MOST_RESULTS 8
#define MOST_VARIANTS 8

typedef struct {
    PyObject_HEAD
    PyObject *name, *names;
    Py_ssize_t count;
    int variants;
    const char *parameters[MOST_VARIANTS], *results[MOST_VARIANTS];
    Entry entries[MOST_VARIANTS];
} Kernel;

/* What a letter of a signature stands for. A capital allows read-only arrays, too. */
typedef struct {
    int type, dimensions;
    const char *said;
} Form;

static Form form_of(char letter) {
    switch (letter | 32) {
        case 'w': return (Form){NPY_INT64, 1, "int64[n]"};
        case 't': return (Form){NPY_INT64, 2, "int64[n, m]"};
        case 'h': return (Form){NPY_INT32, 1, "int32[n]"};
        case 'b': return (Form){NPY_UINT8, 1, "uint8[n]"};
        case 'f': return (Form){NPY_FLOAT64, 1, "float64[n]"};
        case 'g': return (Form){NPY_BOOL, 1, "bool[n]"};
        case 'i': return (Form){0, 0, "an integer"};
        case 'l': return (Form){0, 0, "a bool"};
        default: return (Form){0, 0, "None"};
    }
}

static int has_type(PyArrayObject *array, int wanted) {
    int found = PyArray_TYPE(array);
    /* int64 is `long` or `long long`: the same words. */
    return found == wanted || (wanted == NPY_INT64 && found == NPY_LONGLONG && sizeof(long) == 8);
}

/* Writes the words of an argument. Returns how many, or 0 if it is not what the letter stands for, or -1 on errors. */
static int words_of(PyObject *given, char letter, int64_t *words) {
    if (letter == 'n') {
        words[0] = 0;
        return given == Py_None;
    }
    if (letter == 'i' || letter == 'l') {
        PyObject *number;
        if (PyLong_Check(given)) {
            words[0] = PyLong_AsLongLong(given);
        } else if (PyIndex_Check(given) || PyArray_IsScalar(given, Bool)) {
            number = PyIndex_Check(given) ? PyNumber_Index(given) : PyNumber_Long(given);
            if (number == NULL) return -1;
            words[0] = PyLong_AsLongLong(number);
            Py_DECREF(number);
        } else {
            return 0;
        }
        if (words[0] == -1 && PyErr_Occurred()) return -1;
        if (letter == 'l') words[0] = words[0] != 0;
        return 1;
    }
    if (!PyArray_Check(given)) return 0;
    PyArrayObject *array = (PyArrayObject *)given;
    Form form = form_of(letter);
    int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (letter & 32 ? NPY_ARRAY_WRITEABLE : 0);
    if (PyArray_NDIM(array) != form.dimensions || !has_type(array, form.type) || !PyArray_ISNOTSWAPPED(array) ||
        (PyArray_FLAGS(array) & flags) != flags)
        return 0;
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    int n = form.dimensions;
    int64_t items = 1;
    words[0] = words[1] = 0; /* Numba's owner and parent: kernels do not count references. */
    words[3] = PyArray_ITEMSIZE(array);
    words[4] = (int64_t)(intptr_t)PyArray_DATA(array);
    for (int d = 0; d < n; d++) {
        items *= shape[d];
        words[5 + d] = shape[d];
        words[5 + n + d] = strides[d];
    }
    words[2] = items;
    return 5 + 2 * n;
}

static PyObject *result_of(const char *letters, const char *at) {
    Py_ssize_t n = (Py_ssize_t)strlen(letters);
    PyObject *found[MOST_RESULTS];
    for (Py_ssize_t i = 0; i < n; i++) {
        switch (letters[i]) {
            case 'i': found[i] = PyLong_FromLongLong(*(const int64_t *)(at + 8 * i)); break;
            case 'd': found[i] = PyFloat_FromDouble(*(const double *)(at + 8 * i)); break;
            case 'l': found[i] = PyBool_FromLong(*(const char *)(at + 8 * i)); break;
            default: Py_INCREF(Py_None); found[i] = Py_None;
        }
        if (found[i] == NULL) {
            while (i--) Py_DECREF(found[i]);
            return NULL;
        }
    }
    if (n == 1) return found[0];
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (all == NULL) Py_DECREF(found[i]);
        else PyTuple_SetItem(all, i, found[i]);
    }
    return all;
}

/* Raises what the kernel raised: a pickled tuple of class, arguments and place. */
static PyObject *raise(const Raised *raised) {
    PyObject *pickle = PyImport_ImportModule("pickle"), *all = NULL;
    if (pickle != NULL && raised != NULL)
        all = PyObject_CallMethod(pickle, "loads", "y#", raised->pickled, (Py_ssize_t)raised->size);
    if (all != NULL && PyTuple_Check(all)) {
        PyErr_SetObject(PyTuple_GetItem(all, 0), PyTuple_GetItem(all, 1));
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "a kernel ended with an error that it did not name");
    }
    Py_XDECREF(all);
    Py_XDECREF(pickle);
    return NULL;
}

static PyObject *refuse(Kernel *self, PyObject *given, Py_ssize_t at, char letter) {
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(given), "__name__");
    if (type == NULL) return NULL;
    Form form = form_of(letter);
    const char *array = form.dimensions == 0 ? "" : letter & 32 ? "a writable C-contiguous array " : "a C-contiguous array ";
    PyErr_Format(PyExc_TypeError, "%U() takes for %U %s%s, not %U", self->name, PyTuple_GetItem(self->names, at), array,
                 form.said, type);
    Py_DECREF(type);
    return NULL;
}

/* A call of a kernel: its words while it runs, and what it has left. */
typedef struct {
    Entry entry;
    const char *letters; /* of its result */
    int64_t words[MOST_WORDS], result[MOST_RESULTS];
    void *raised;
    int32_t status;
} Call;

/* Prepares a call with these arguments. Returns 0, or -1 with an exception. */
static int prepare(Kernel *self, PyObject *given, Call *call) {
    if (PyTuple_Size(given) != self->count) {
        PyErr_Format(PyExc_TypeError, "%U() takes %zd arguments by position", self->name, self->count);
        return -1;
    }
    Py_ssize_t reached = -1;
    char wanted = 0;
    for (int v = 0; v < self->variants; v++) {
        const char *letters = self->parameters[v];
        Py_ssize_t at = 0;
        int64_t *next = call->words;
        for (; at < self->count; at++) {
            int more = words_of(PyTuple_GetItem(given, at), letters[at], next);
            if (more < 0) return -1;
            if (more == 0) break;
            next += more;
        }
        if (at == self->count) {
            call->entry = self->entries[v];
            call->letters = self->results[v];
            call->raised = NULL;
            return 0;
        }
        if (at > reached) {
            reached = at;
            wanted = letters[at];
        }
    }
    refuse(self, PyTuple_GetItem(given, reached), reached, wanted);
    return -1;
}

static PyTypeObject *kernel_type;

static void make(Call *call) { call->status = call->entry(call->words, call->result, &call->raised); }

/* Returns what a call that was made has left, or NULL with the exception that the kernel raised. */
static PyObject *outcome(const Call *call) {
    return call->status ? raise(call->raised) : result_of(call->letters, (const char *)call->result);
}

static PyObject *kernel_call(PyObject *object, PyObject *given, PyObject *named) {
    Kernel *self = (Kernel *)object;
    Call call;
    if (named != NULL && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "%U() takes %zd arguments by position", self->name, self->count);
    if (prepare(self, given, &call)) return NULL;
    PyThreadState *state = PyEval_SaveThread();
    make(&call);
    PyEval_RestoreThread(state);
    return outcome(&call);
}

/* Kernel(name, names of its parameters, variants: tuples of parameters, result and address; see `entries`) */
static PyObject *kernel_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    PyObject *name, *names, *variants;
    (void)named;
    if (!PyArg_ParseTuple(given, "UO!O!:Kernel", &name, &PyTuple_Type, &names, &PyTuple_Type, &variants)) return NULL;
    Py_ssize_t n = PyTuple_Size(variants), count = PyTuple_Size(names);
    if (n > MOST_VARIANTS || count > MOST_PARAMETERS)
        return PyErr_Format(PyExc_ValueError, "%U has too many variants or parameters", name);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Kernel *self = (Kernel *)alloc(type, 0);
    if (self == NULL) return NULL;
    Py_INCREF(name);
    Py_INCREF(names);
    self->name = name;
    self->names = names;
    self->count = count;
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long parameters, result, entry;
        if (!PyArg_ParseTuple(PyTuple_GetItem(variants, i), "KKK", &parameters, &result, &entry)) {
            Py_DECREF(self);
            return NULL;
        }
        self->parameters[i] = (const char *)(uintptr_t)parameters;
        self->results[i] = (const char *)(uintptr_t)result;
        self->entries[i] = (Entry)(uintptr_t)entry;
        if (strlen(self->parameters[i]) != (size_t)count || strlen(self->results[i]) > MOST_RESULTS) {
            PyErr_Format(PyExc_ValueError, "%U has other parameters in the library", name);
            Py_DECREF(self);
            return NULL;
        }
        self->variants++;
    }
    return (PyObject *)self;
}

static void kernel_dealloc(PyObject *object) {
    Kernel *self = (Kernel *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->name);
    Py_XDECREF(self->names);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *kernel_repr(PyObject *object) {
    return PyUnicode_FromFormat("<compiled kernel %U>", ((Kernel *)object)->name);
}

static PyType_Slot kernel_slots[] = {
    {Py_tp_new, kernel_new},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_call, kernel_call},
    {Py_tp_repr, kernel_repr},
    {Py_tp_doc, "A kernel of a library: checks its arguments and calls it without the GIL."},
    {0, NULL},
};
static PyType_Spec kernel_spec = {"crown.compiling.native.Kernel", sizeof(Kernel), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kernel_slots};

/* A team makes several calls at once: the first in the thread that asks, the others in threads that serve it.

   A thread that has nothing to do reads a word of its seat again and again for some time, because a thread that sleeps
   takes 50 us to wake, and as long of the thread that wakes it; meanwhile it yields its processor to any other thread.
   Then it sleeps on a lock. So does the thread that waits for the others. */

#define SPIN_NS 200000 /* longer than Python takes between two batches of a stream */

enum { WATCHED, SLEPT_ON, SET, ENDED };

typedef struct {
    int state; /* WATCHED or SLEPT_ON by a thread that waits until it is SET or ENDED */
    PyThread_type_lock lock; /* held, but while the thread that sleeps on it is woken */
} Signal;

typedef struct {
    Signal asked, done;
    Call call;
} Seat;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    Seat *seats;
    int busy, ended;
} Team;

static void pause_a_little(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void set(Signal *signal, int state) {
    if (__atomic_exchange_n(&signal->state, state, __ATOMIC_ACQ_REL) == SLEPT_ON) PyThread_release_lock(signal->lock);
}

/* Waits until a signal is SET, which it then is no more, or ENDED. Returns which. */
static int wait_for(Signal *signal) {
    int found = WATCHED;
    for (int64_t until = now() + SPIN_NS; found == WATCHED && now() < until; sched_yield()) {
        for (int i = 0; i < 64 && (found = __atomic_load_n(&signal->state, __ATOMIC_ACQUIRE)) == WATCHED; i++)
            pause_a_little();
    }
    if (found == WATCHED &&
        __atomic_compare_exchange_n(&signal->state, &found, SLEPT_ON, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        PyThread_acquire_lock(signal->lock, WAIT_LOCK);
    found = __atomic_load_n(&signal->state, __ATOMIC_ACQUIRE);
    if (found == SET) __atomic_store_n(&signal->state, WATCHED, __ATOMIC_RELEASE);
    return found;
}

static PyObject *team_serve(PyObject *object, PyObject *number) {
    Team *self = (Team *)object;
    Py_ssize_t at = PyLong_AsSsize_t(number);
    if (at == -1 && PyErr_Occurred()) return NULL;
    if (at < 0 || at >= self->count) return PyErr_Format(PyExc_IndexError, "the team has %zd seats", self->count);
    Seat *seat = &self->seats[at];
    PyThreadState *state = PyEval_SaveThread();
    while (wait_for(&seat->asked) == SET) {
        make(&seat->call);
        set(&seat->done, SET);
    }
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

static PyObject *team_end(PyObject *object, PyObject *none) {
    Team *self = (Team *)object;
    (void)none;
    self->ended = 1;
    for (Py_ssize_t i = 0; i < self->count; i++) set(&self->seats[i].asked, ENDED);
    Py_RETURN_NONE;
}

static PyObject *team_run(PyObject *object, PyObject *given) {
    Team *self = (Team *)object;
    PyObject *kernel, *calls, *found;
    Call first;
    if (!PyArg_ParseTuple(given, "O!O!:run", kernel_type, &kernel, &PyList_Type, &calls)) return NULL;
    Py_ssize_t n = PyList_Size(calls);
    if (self->busy || self->ended) Py_RETURN_NONE;
    if (n < 1 || n > self->count + 1)
        return PyErr_Format(PyExc_ValueError, "the team makes 1 to %zd calls", self->count + 1);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *arguments = PyList_GetItem(calls, i);
        if (!PyTuple_Check(arguments)) return PyErr_Format(PyExc_TypeError, "the arguments of a call are a tuple");
        if (prepare((Kernel *)kernel, arguments, i ? &self->seats[i - 1].call : &first)) return NULL;
    }
    self->busy = 1;
    PyThreadState *state = PyEval_SaveThread();
    for (Py_ssize_t i = 1; i < n; i++) set(&self->seats[i - 1].asked, SET);
    make(&first);
    for (Py_ssize_t i = 1; i < n; i++) wait_for(&self->seats[i - 1].done);
    PyEval_RestoreThread(state);
    self->busy = 0;
    if ((found = PyList_New(n)) == NULL) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = outcome(i ? &self->seats[i - 1].call : &first);
        if (one == NULL) {
            PyObject *type, *error, *trace;
            PyErr_Fetch(&type, &error, &trace);
            PyErr_NormalizeException(&type, &error, &trace);
            Py_XDECREF(type);
            Py_XDECREF(trace);
            one = error;
        }
        PyList_SetItem(found, i, one);
    }
    return found;
}

/* Team(number of the threads that serve it) */
static PyObject *team_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    Py_ssize_t count;
    (void)named;
    if (!PyArg_ParseTuple(given, "n:Team", &count)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Team *self = (Team *)alloc(type, 0);
    if (self == NULL) return NULL;
    self->seats = count > 0 ? PyMem_Calloc((size_t)count, sizeof(Seat)) : NULL;
    if (count > 0 && self->seats == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (; self->count < count; self->count++) {
        Signal *both[2] = {&self->seats[self->count].asked, &self->seats[self->count].done};
        for (int i = 0; i < 2; i++) {
            if ((both[i]->lock = PyThread_allocate_lock()) == NULL) {
                Py_DECREF(self);
                return PyErr_NoMemory();
            }
            PyThread_acquire_lock(both[i]->lock, WAIT_LOCK);
        }
    }
    return (PyObject *)self;
}

static void team_dealloc(PyObject *object) {
    Team *self = (Team *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        PyThread_free_lock(self->seats[i].asked.lock);
        PyThread_free_lock(self->seats[i].done.lock);
    }
    PyMem_Free(self->seats);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef team_methods[] = {
    {"serve", team_serve, METH_O, "Makes the calls of one seat, in the thread of the caller, until the team ends."},
    {"run", team_run, METH_VARARGS,
     "Makes a call of a kernel with each of these tuples of arguments. Returns the results, with an exception in place "
     "of a result that there is not; or None, if the team makes calls for another thread, or has ended."},
    {"end", team_end, METH_NOARGS, "Ends all threads that serve the team."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot team_slots[] = {
    {Py_tp_new, team_new},
    {Py_tp_dealloc, team_dealloc},
    {Py_tp_methods, team_methods},
    {Py_tp_doc, "Makes several calls of a kernel at once, in threads that serve it."},
    {0, NULL},
};
static PyType_Spec team_spec = {"crown.compiling.native.Team", sizeof(Team), 0, Py_TPFLAGS_DEFAULT, team_slots};

/* Returns what is at an address of `crown_entries`: (name, parameters, result), then the addresses of these two texts
   and of the entry. */
static PyObject *entries(PyObject *module, PyObject *address) {
    (void)module;
    const Listed *listed = PyLong_AsVoidPtr(address);
    PyObject *found = listed == NULL ? NULL : PyList_New(0);
    if (found == NULL) return NULL;
    for (; listed->name != NULL; listed++) {
        PyObject *one = Py_BuildValue("sssKKK", listed->name, listed->parameters, listed->result,
                                      (unsigned long long)(uintptr_t)listed->parameters,
                                      (unsigned long long)(uintptr_t)listed->result,
                                      (unsigned long long)(uintptr_t)listed->entry);
        int failed = one == NULL || PyList_Append(found, one);
        Py_XDECREF(one);
        if (failed) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

/* Returns the processors for which libraries are built and that this one can stand in for, the best first. */
static PyObject *processors(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
#if defined(__x86_64__)
    __builtin_cpu_init();
    int third = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                __builtin_cpu_supports("fma") && __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("movbe") &&
                __builtin_cpu_supports("f16c");
    int fourth = third && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int second = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    if (fourth) return Py_BuildValue("(sss)", "x86-64-v4", "x86-64-v3", "x86-64-v2");
    if (third) return Py_BuildValue("(ss)", "x86-64-v3", "x86-64-v2");
    if (second) return Py_BuildValue("(s)", "x86-64-v2");
    return Py_BuildValue("()");
#elif defined(__aarch64__)
    return Py_BuildValue("(s)", "aarch64");
#else
    return Py_BuildValue("()");
#endif
}

static PyMethodDef methods[] = {
    {"entries", entries, METH_O, "Returns the entries of a library, from their address."},
    {"processors", processors, METH_NOARGS, "Returns names of processors whose code runs here, the best first."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native", "Calls kernels that were compiled ahead of time.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native(void) {
    import_array();
    PyObject *module = PyModule_Create(&definition), *type = NULL;
    if (module == NULL) return NULL;
    if ((type = PyType_FromSpec(&kernel_spec)) == NULL || PyModule_AddObject(module, "Kernel", type) < 0 ||
        (kernel_type = (PyTypeObject *)type, type = PyType_FromSpec(&team_spec)) == NULL ||
        PyModule_AddObject(module, "Team", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
